package memreg

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func TestCopy_CopiesEveryByteAndNoOther(t *testing.T) {
	sizes := []int{255, 256, 257, 505, 511, 512, 513, 1024, 1531, 4096}
	for n := range 40 {
		sizes = append(sizes, n)
	}
	for _, n := range sizes {
		for dstAt := range 8 {
			for srcAt := range 8 {
				src := alignedTo(srcAt, n)
				for i := range src {
					src[i] = byte(i*7 + n)
				}
				frame := bytes.Repeat([]byte{0xee}, n+32)
				dst := frame[(dstAt+8-int(address(frame)%8))%8+8:][:n]
				Copy(dst, src)
				if !bytes.Equal(dst, src) {
					t.Fatalf("%d bytes from offset %d to %d: wrong", n, srcAt, dstAt)
				}
				if bytes.Count(frame, []byte{0xee})-bytes.Count(src, []byte{0xee}) != 32 {
					t.Fatalf("%d bytes from offset %d to %d: wrote beside dst", n, srcAt, dstAt)
				}
			}
		}
	}
}

func TestCopy_StopsAtTheShorterSide(t *testing.T) {
	for _, c := range []struct {
		dst, src, want string
	}{
		{"........", "abcdefgh", "abcdefgh"},
		{"....", "abcdefgh", "abcd"},
		{"........", "abc", "abc....."},
		{"", "abc", ""},
		{"....", "", "...."},
	} {
		dst := []byte(c.dst)
		Copy(dst, []byte(c.src))
		if string(dst) != c.want {
			t.Errorf("Copy(%q, %q) leaves %q", c.dst, c.src, dst)
		}
	}
	Copy(nil, nil)
}

// A program that polls the last byte of a message, as ib_write_lat does, finds the
// whole message there; in race builds the detector agrees that it may read it with
// ordinary code. The answer goes back the same way.
func TestCopy_WhoSeesTheLastByteSeesTheMessage(t *testing.T) {
	const rounds = 100
	for _, n := range []int{1, 2, 3, 5, 8, 9, 15, 16, 17, 64, 250, 1024, 4096, 20_000} {
		for _, at := range []int{0, 1, 7} {
			t.Run(fmt.Sprintf("%d bytes at %d", n, at), func(t *testing.T) {
				tb := newTable()
				ping := register(t, tb, alignedTo(at, n), Options{Access: LocalWrite})
				pong := register(t, tb, words(16), Options{Access: LocalWrite})
				var w sync.WaitGroup
				w.Go(func() { // the loop of the receiving side
					frame := make([]byte, n)
					for i := 1; i <= rounds; i++ {
						for j := range frame {
							frame[j] = byte(i)
						}
						Copy(ping.Bytes(), frame)
						for pong.LoadUint64(8) != uint64(i) {
							runtime.Gosched()
						}
					}
				})
				for i := 1; i <= rounds; i++ {
					for ping.LoadUint8(n-1) != byte(i) {
						runtime.Gosched()
					}
					for j, v := range ping.Bytes() {
						if v != byte(i) {
							t.Errorf("message %d: byte %d is still %d", i, j, v)
							break
						}
					}
					pong.StoreUint64(8, uint64(i))
				}
				w.Wait()
			})
		}
	}
}

// A word that ends a copy is never seen half written, so a program may poll for any change of it.
func TestCopy_StoresAWordAtTheEndInOnePiece(t *testing.T) {
	for _, n := range []int{8, 11, 16, 64, 1000} {
		r := register(t, newTable(), alignedTo(8-n%8, n), Options{Access: LocalWrite})
		var stop atomic.Bool
		var w sync.WaitGroup
		w.Go(func() {
			var frames [2][]byte
			frames[0], frames[1] = make([]byte, n), bytes.Repeat([]byte{0xff}, n)
			for i := 0; !stop.Load(); i++ {
				Copy(r.Bytes(), frames[i%2])
			}
		})
		for range 100_000 {
			if v := r.LoadUint64(n - 8); v != 0 && v != math.MaxUint64 {
				t.Errorf("%d bytes: saw %#016x of a word that is all zeros or all ones", n, v)
				break
			}
		}
		stop.Store(true)
		w.Wait()
	}
}

// Pitfall 24: peers may write, read and count in the same bytes at the same time.
// Bytes mix, nothing crashes, and the race detector has nothing to say.
func TestCopy_IsCleanTowardsAllOtherAccessByTheNetwork(t *testing.T) {
	tb := newTable()
	const size = 1024
	r := register(t, tb, words(size), Options{Access: everything})
	const rounds = 500
	var w sync.WaitGroup
	each := func(f func(i int)) {
		w.Go(func() {
			for i := range rounds {
				f(i)
			}
		})
	}
	frame := make([]byte, size)
	slice := func(off, n int) []byte {
		b, f := tb.Slice(r.Key(), ours, RemoteWrite|RemoteRead, r.Addr()+uint64(off), uint64(n))
		if f != FaultNone {
			t.Error(f)
		}
		return b
	}
	each(func(i int) { Copy(slice(i%13, size-13), frame) })
	each(func(i int) { Copy(slice(i%7, 64+i), frame) })
	each(func(i int) { Copy(slice(i%300, 3), frame) })
	each(func(i int) { Copy(make([]byte, size), slice(i%5, size-5)) })
	each(func(i int) { Copy(make([]byte, size), slice(i%300, 5)) })
	each(func(int) { _, _ = tb.FetchAdd(r.Key(), ours, r.Addr()+64, 1) })
	each(func(int) { _, _ = tb.CompareSwap(r.Key(), ours, r.Addr()+128, 0, 1) })
	each(func(i int) { r.LoadUint8(i) })
	each(func(i int) { r.LoadUint64(i &^ 7) })
	each(func(i int) { r.StoreUint64(i&^7, uint64(i)) })
	w.Wait()
}

// Two buffers may share a word: a copy to the one is no access to the other.
func TestCopy_LeavesNeighboursInTheSameWordAlone(t *testing.T) {
	b := words(16)
	mine, network := b[5:8], b[0:5]
	var w sync.WaitGroup
	w.Go(func() {
		frame := make([]byte, 8)
		for i := range 10_000 {
			frame[0], frame[4] = byte(i), byte(i)
			Copy(network, frame)
			Copy(frame, network)
		}
	})
	for i := range 10_000 {
		mine[0], mine[2] = byte(i), byte(i)
		if mine[0] != byte(i) || mine[2] != byte(i) {
			t.Fatalf("store %d is lost", i)
		}
	}
	w.Wait()
}

func TestLoadUint8_ReadsEveryByte(t *testing.T) {
	for at := range 8 {
		b := alignedTo(at, 33)
		for i := range b {
			b[i] = byte(100 + i)
		}
		r := register(t, newTable(), b, Options{})
		for i := range b {
			if got := r.LoadUint8(i); got != byte(100+i) {
				t.Errorf("offset %d of memory at %d: %d", i, at, got)
			}
		}
	}
}

func TestLoadAndStore_PanicOnAnOffsetThatIsABug(t *testing.T) {
	aligned := register(t, newTable(), words(16), Options{Access: LocalWrite})
	odd := register(t, newTable(), alignedTo(4, 16), Options{Access: LocalWrite})
	for name, c := range map[string]struct {
		says string
		f    func()
	}{
		"LoadUint8 below":      {"out of range", func() { aligned.LoadUint8(-1) }},
		"LoadUint8 above":      {"out of range", func() { aligned.LoadUint8(16) }},
		"LoadUint64 below":     {"out of range", func() { aligned.LoadUint64(-8) }},
		"LoadUint64 above":     {"out of range", func() { aligned.LoadUint64(9) }},
		"LoadUint64 unaligned": {"LoadUint64 at offset 4 is not aligned to 8 bytes in memory", func() { aligned.LoadUint64(4) }},
		"StoreUint64 unaligned in memory": {
			"StoreUint64 at offset 8 is not aligned to 8 bytes in memory: the region begins at 0x",
			func() { odd.StoreUint64(8, 1) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, c.says) {
					t.Errorf("panic %q does not say %q", got, c.says)
				}
			}()
			c.f()
		})
	}
	odd.StoreUint64(4, 5)
	if odd.LoadUint64(4) != 5 {
		t.Error("a word that is aligned in memory was not stored")
	}
}
