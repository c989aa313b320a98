package perftest

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/go-roce/roce/cmd/rocectl/internal/oob"
)

// patience is how long the peer may take from one message to the next while a test is set up. Creating queue pairs and
// registering memory takes an emulated machine seconds.
const patience = 60 * time.Second

// Exchange is perftest's conversation over TCP.
type Exchange struct {
	conn   *oob.Conn
	client bool
	peer   Version
}

// NewExchange starts the conversation over conn, as its client or its server.
func NewExchange(conn *oob.Conn, client bool) *Exchange { return &Exchange{conn: conn, client: client} }

// Peer is the version the peer announced; valid after hello.
func (x *Exchange) Peer() Version { return x.peer }

// swap is one step: the client writes first, the server answers.
func (x *Exchange) swap(ctx context.Context, what string, out, in []byte, patience time.Duration) error {
	if x.client {
		if err := x.conn.Send("this end's "+what, out); err != nil {
			return err
		}
		return x.conn.Receive(ctx, oob.Expect{What: "its " + what, Patience: patience}, in)
	}
	if err := x.conn.Receive(ctx, oob.Expect{What: "its " + what, Patience: patience}, in); err != nil {
		return err
	}
	return x.conn.Send("this end's "+what, out)
}

// terms are what the two ends agree on before they make queue pairs.
type terms struct {
	cycleBuffer int // bytes of a queue pair's buffer that small messages cycle through
	cacheLine   int // small messages start at multiples of this
	mtu         int // path MTU
}

// hello exchanges versions and agrees on terms.
func (x *Exchange) hello(ctx context.Context, own terms) (terms, error) {
	version := make([]byte, versionLen)
	if err := x.swap(ctx, "version", Announced.encode(), version, patience); err != nil {
		return terms{}, err
	}
	peer, err := parseVersion(version)
	if err != nil {
		return terms{}, err
	}
	if err := peer.check(); err != nil {
		return terms{}, err
	}
	x.peer = peer

	agreed := own
	for _, t := range []struct {
		what  string
		value *int
	}{{"cycle buffer size", &agreed.cycleBuffer}, {"cache line size", &agreed.cacheLine}} {
		in := make([]byte, 4)
		if err := x.swap(ctx, t.what, binary.BigEndian.AppendUint32(nil, uint32(*t.value)), in, patience); err != nil {
			return terms{}, err
		}
		v := binary.BigEndian.Uint32(in)
		if v == 0 || v > 1<<24 {
			return terms{}, fmt.Errorf("the peer's %s of %d bytes makes no sense", t.what, v)
		}
		*t.value = max(*t.value, int(v))
	}
	in := make([]byte, 2)
	if err := x.swap(ctx, "MTU", []byte{'0' + mtuEnum(own.mtu), 0}, in, patience); err != nil {
		return terms{}, err
	}
	mtu, ok := mtuBytes(in[0])
	if !ok || in[1] != 0 {
		return terms{}, fmt.Errorf("the peer's MTU %q is not one of the digits 1 (256) to 5 (4096)", in)
	}
	agreed.mtu = min(own.mtu, mtu)
	return agreed, nil
}

// mtuEnum returns ibv_mtu's number of a path MTU: 1 for 256 up to 5 for 4096.
func mtuEnum(mtu int) byte {
	n := byte(1)
	for ; mtu > 256; mtu /= 2 {
		n++
	}
	return n
}

func mtuBytes(digit byte) (int, bool) {
	if digit < '1' || digit > '5' {
		return 0, false
	}
	return 128 << (digit - '0'), true
}

// keys tells the peer of n queue pairs and learns of as many. own makes the key of queue pair i; the server is given
// the peer's key of it, the client nil.
func (x *Exchange) keys(ctx context.Context, n int, own func(i int, peer *Key) (Key, error)) (mine, theirs []Key, err error) {
	for i := range n {
		what := "key"
		if n > 1 {
			what = fmt.Sprintf("key %d of %d", i+1, n)
		}
		var k, peer Key
		send := func(seen *Key) error {
			if k, err = own(i, seen); err != nil {
				return err
			}
			return x.conn.Send("this end's "+what, k.encode())
		}
		receive := func() error {
			b := make([]byte, keyLen)
			if err := x.conn.Receive(ctx, oob.Expect{What: "its " + what, Patience: patience, Early: x.refuseShortKey}, b); err != nil {
				return err
			}
			peer, err = parseKey(b)
			return err
		}
		if x.client {
			if err = send(nil); err == nil {
				err = receive()
			}
		} else if err = receive(); err == nil {
			err = send(&peer)
		}
		if err == nil {
			err = sameFamily(k.GID, peer.GID)
		}
		if err != nil {
			return nil, nil, err
		}
		mine, theirs = append(mine, k), append(theirs, peer)
	}
	return mine, theirs, nil
}

func (x *Exchange) refuseShortKey(got []byte) error {
	if withoutGID(got) {
		return fmt.Errorf("the peer %s sent a key without a GID, as over InfiniBand: choose a RoCE v2 GID there with -x", x.conn.Peer())
	}
	return nil
}

// barrier waits until the peer is as far as this end. k is the key of any queue pair; nobody looks at it.
func (x *Exchange) barrier(ctx context.Context, what string, k *Key, patience time.Duration) error {
	return x.swap(ctx, what, k.encode(), make([]byte, keyLen), patience)
}

// reports tells the peer this end's figures and returns the peer's.
func (x *Exchange) reports(ctx context.Context, own *bwReport) (bwReport, error) {
	var peer bwReport
	for i, what := range [bwReportFields]string{"size", "iterations", "peak bandwidth", "average bandwidth", "message rate"} {
		out, in := own.field(i), [8]byte{}
		if err := x.swap(ctx, "report of "+what, out[:], in[:], patience); err != nil {
			return peer, err
		}
		peer.setField(i, in)
	}
	return peer, nil
}

// goodbye ends the conversation of a test that has an end: a last barrier, for which the peer may still be running, then each side says done without looking
// for the peer's. Versions from 6.17 on neither send nor expect that word, and do not mind it.
func (x *Exchange) goodbye(ctx context.Context, k *Key) error {
	if err := x.barrier(ctx, "goodbye", k, 0); err != nil {
		return err
	}
	_ = x.conn.Send("done", []byte("done\x00")) // the peer may have closed already
	return nil
}
