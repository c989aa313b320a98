package link

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestParseSocketTable(t *testing.T) {
	if !littleEndian {
		t.Skip("the tables below are a little-endian machine's")
	}
	const v4 = `   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  311: 0100007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 1001 2 0000000000000000 0
  583: 00000000:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 1002 2 0000000000000000 0
  583: 01004D0A:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000        0 1003 2 0000000000000000 0
  600: 00000000:1234 00000000:12B7 07 00000000:00000000 00:00000000 00000000     0        0 1004 2 0000000000000000 0
 truncated line
`
	const v6 = `  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  583: 00000000000000000000000000000000:12B7 00000000000000000000000000000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 2001 2 0000000000000000 0
  583: 000077FD000000000000000001000000:12B7 00000000000000000000000000000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 2002 2 0000000000000000 0
  583: 0000000000000000FFFF00000100007F:12B7 00000000000000000000000000000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 2003 2 0000000000000000 0
`
	var got []string
	for _, o := range append(parseSocketTable(v4), parseSocketTable(v6)...) {
		got = append(got, fmt.Sprint(o.addr, " ", o.inode))
	}
	want := "[0.0.0.0 1002 10.77.0.1 1003 :: 2001 fd77::1 2002 127.0.0.1 2003]"
	if fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

func TestParseClaims(t *testing.T) {
	const table = `Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 11601 /run/systemd/private
0000000000000000: 00000002 00000000 00000000 0002 01 11602 @go-roce/qpn/5/131072+65536
0000000000000000: 00000002 00000000 00000000 0002 01 11603 @something/else
0000000000000000: 00000002 00000000 00000000 0002 01 11604
0000000000000000: 00000002 00000000 00000000 0002 01 11605 @go-roce/qpn/6/2+16777213
0000000000000000: 00000002 00000000 00000000 0002 01 11606 @go-roce/qpn/6/all
`
	on5, all := claimOf{"11602", QPNRange{131072, 65536}}, claimOf{"11605", AllQPNs}
	for index, want := range map[int][]claimOf{0: {on5, all}, 5: {on5}, 6: {all}, 7: nil} {
		if got := parseClaims(table, index); !slices.Equal(got, want) {
			t.Errorf("claims on interface %d: %v, want %v", index, got, want)
		}
	}
}

func TestQPNRange_Overlaps(t *testing.T) {
	r := QPNRange{100, 10}
	for _, c := range []struct {
		o    QPNRange
		want bool
	}{
		{QPNRange{100, 10}, true}, {AllQPNs, true}, {QPNRange{109, 1}, true}, {QPNRange{91, 10}, true},
		{QPNRange{110, 5}, false}, {QPNRange{90, 10}, false},
	} {
		if r.overlaps(c.o) != c.want || c.o.overlaps(r) != c.want {
			t.Errorf("%v overlaps %v: want %v", r, c.o, c.want)
		}
	}
}

func TestQPNSlot_RangesLeaveOutReservedNumbers(t *testing.T) {
	next := uint32(2)
	for slot := range uint32(qpnSlots) {
		r := slotQPNs(slot)
		if r.First != next {
			t.Fatalf("slot %d begins at %#x, want %#x", slot, r.First, next)
		}
		next += r.Count
	}
	if next != 0xFFFFFF {
		t.Errorf("the last range ends before %#x, want 0xFFFFFF", next)
	}
}

func TestIfaceAddr_RankAndUse(t *testing.T) {
	inOrder := []ifaceAddr{
		{netip.MustParseAddr("192.0.2.1"), unix.IFA_F_PERMANENT},
		{netip.MustParseAddr("2001:db8::1"), unix.IFA_F_PERMANENT},
		{netip.MustParseAddr("2001:db8::2"), unix.IFA_F_TEMPORARY},
		{netip.MustParseAddr("2001:db8::3"), unix.IFA_F_DEPRECATED},
		{netip.MustParseAddr("169.254.0.1"), unix.IFA_F_PERMANENT},
		{netip.MustParseAddr("fe80::1"), unix.IFA_F_PERMANENT},
	}
	for i := 1; i < len(inOrder); i++ {
		if a, b := inOrder[i-1], inOrder[i]; a.rank() >= b.rank() {
			t.Errorf("%v ranks %d, %v %d", a.addr, a.rank(), b.addr, b.rank())
		}
	}
	for flags, want := range map[int]bool{
		0:                     true,
		unix.IFA_F_DEPRECATED: true,
		unix.IFA_F_TENTATIVE:  false,
		unix.IFA_F_OPTIMISTIC | unix.IFA_F_TENTATIVE: true,
		unix.IFA_F_DADFAILED | unix.IFA_F_TENTATIVE:  false,
	} {
		if got := (ifaceAddr{flags: flags}).usable(); got != want {
			t.Errorf("flags %#x: usable %v", flags, got)
		}
	}
}
