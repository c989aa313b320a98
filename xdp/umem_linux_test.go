package xdp

import (
	"os"
	"strings"
	"testing"
)

func TestUMEM_ChunksAreWhatTheKernelTakes(t *testing.T) {
	for _, size := range []int{0, 1024, 2047, 3000, 2 * os.Getpagesize()} {
		if _, err := NewUMEM(16, size); err == nil || !strings.Contains(err.Error(), "a power of two") {
			t.Errorf("chunks of %d bytes: %v", size, err)
		}
	}
	u, err := NewUMEM(1000, 2048)
	if err != nil {
		t.Fatal(err)
	}
	if n := u.Chunks(); n < 1000 || len(u.mem)%hugePage != 0 {
		t.Errorf("%d chunks in %d bytes", n, len(u.mem))
	}
	for range 2 {
		if err := u.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestUMEM_BytesLieWithin(t *testing.T) {
	u, err := NewUMEM(1, 2048)
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	size := uint64(len(u.mem))
	b := u.Bytes(size-10, 10)
	if len(b) != 10 || cap(b) != 10 {
		t.Errorf("%d bytes, capacity %d", len(b), cap(b))
	}
	for _, c := range []struct {
		addr uint64
		n    int
	}{{size - 10, 11}, {size + 1, 0}, {^uint64(0), 1}, {1, int(size)}} {
		if b := u.Bytes(c.addr, c.n); b != nil {
			t.Errorf("%d bytes at %#x are %d bytes", c.n, c.addr, len(b))
		}
	}
}
