package perftest

import (
	"bytes"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// captures are the exchanges of the originals, by the test of ours that has the same.
var captures = []string{
	"pt_write_bw", "pt_write_bw_2qp", "pt_write_bw_bidir", "pt_write_bw_uc", "pt_send_bw", "pt_send_bw_ud", "pt_read_bw", "pt_atomic_bw",
	"pt_write_lat", "pt_send_lat", "pt_read_lat", "pt_atomic_lat",
}

func TestKey_EveryCapturedOneIsReadAndWrittenTheSame(t *testing.T) {
	n := 0
	for _, name := range captures {
		s := capturedExchange(t, name)
		for _, m := range append(s.client, s.server...) {
			if len(m) != keyLen {
				continue
			}
			n++
			k, err := parseKey(m)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if got := k.encode(); !bytes.Equal(got, m) {
				t.Errorf("%s: %q became %q", name, m, got)
			}
		}
	}
	if n < 100 {
		t.Errorf("only %d keys in the captures", n)
	}
}

func TestKey_Fields(t *testing.T) {
	const text = "0000:0080:000050:041871:000078e4:0000556b0d92b000:00:00:00:00:00:00:00:00:00:00:ff:ff:0a:07:00:02:00000000:\x00"
	want := Key{OutReads: 128, QPN: 0x50, PSN: 0x041871, RKey: 0x78e4, VAddr: 0x556b0d92b000, GID: netip.MustParseAddr("10.7.0.2")}
	k, err := parseKey([]byte(text))
	if err != nil || k != want {
		t.Errorf("%+v, %v; want %+v", k, err, want)
	}
	six := want
	six.GID = netip.MustParseAddr("fd77::1")
	if k, err := parseKey(six.encode()); err != nil || k != six {
		t.Errorf("%+v, %v; want %+v", k, err, six)
	}
}

func TestKey_EveryOtherMessageIsRefused(t *testing.T) {
	k := Key{QPN: 1, GID: netip.MustParseAddr("10.7.0.2")}
	good := k.encode()
	if len(good) != keyLen {
		t.Fatalf("a key has %d bytes", len(good))
	}
	for i := range good {
		for _, c := range []byte{'g', ':', 0} {
			bad := bytes.Clone(good)
			if bad[i] = c; bytes.Equal(bad, good) {
				continue
			}
			if k, err := parseKey(bad); err == nil {
				t.Errorf("%q was read as %+v", bad, k)
			}
		}
	}
	for i := range good {
		if _, err := parseKey(good[:i]); err == nil {
			t.Errorf("%q was read", good[:i])
		}
	}
	k.GID = netip.IPv6Unspecified()
	if _, err := parseKey(k.encode()); err == nil || !strings.Contains(err.Error(), "-x") {
		t.Errorf("a key without a GID: %v", err)
	}
}

func TestVersion_ReadAndWritten(t *testing.T) {
	for text, want := range map[string]Version{"6.06": 606, "5.70": 570, "6.29": 629, "5.7": 570, "6.1": 610, "10.00": 1000} {
		b := make([]byte, versionLen)
		copy(b, text)
		if v, err := parseVersion(b); err != nil || v != want {
			t.Errorf("%q is %v, %v; want %v", text, v, err, want)
		}
	}
	for _, text := range []string{"", "6", "6.", ".06", "six.06", "6.066", "-1.00", "6.0x", "GET / HTTP/1.1\r\n"} {
		b := make([]byte, versionLen)
		copy(b, text)
		if v, err := parseVersion(b); err == nil {
			t.Errorf("%q is %v", text, v)
		}
	}
	if got := capturedExchange(t, "pt_write_bw").client[0]; !bytes.Equal(got, Announced.encode()) {
		t.Errorf("this end announces %q, release 4.5 %q", Announced.encode(), got)
	}
}

func TestVersion_SkewIsNamed(t *testing.T) {
	for _, c := range []struct {
		v    Version
		want string // in the error; "" for none
	}{
		{531, "5.31"}, {569, "older than 5.70"}, {570, ""}, {606, ""}, {617, ""}, {627, ""}, {628, "26.01"}, {629, ""}, {701, ""},
	} {
		err := c.v.check()
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "version skew")) {
			t.Errorf("version %v: %v, want %q", c.v, err, c.want)
		}
	}
	if Announced < oldest || Announced >= alwaysNegotiates {
		t.Errorf("version %v must make no peer refuse it, nor negotiate", Announced)
	}
}

func TestReport_AsCaptured(t *testing.T) {
	var reports [][]byte
	for _, m := range capturedExchange(t, "pt_write_bw_2qp").client {
		if len(m) == 8 {
			reports = append(reports, m)
		}
	}
	if len(reports) != bwReportFields {
		t.Fatalf("%d messages of 8 bytes", len(reports))
	}
	var r bwReport
	for i, m := range reports {
		r.setField(i, [8]byte(m))
		if got := r.field(i); !bytes.Equal(got[:], m) {
			t.Errorf("field %d: % x became % x", i, m, got)
		}
	}
	if r.size != 2048 || r.iterations != 10 || r.avg < 0.52 || r.avg > 0.53 {
		t.Errorf("%+v", r)
	}
	// 2048 x 10 bytes at 0.524 MiB/s.
	if took := r.took(); took < 37*time.Millisecond || took > 38*time.Millisecond {
		t.Errorf("took %v", took)
	}
}

func TestReport_GarbageOfAnIdleServerDoesNoHarm(t *testing.T) {
	for _, rate := range []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1), 5e-324, 1e300} {
		r := bwReport{size: 1 << 60, iterations: 1 << 60, rate: rate}
		if took := r.took(); took < 0 {
			t.Errorf("rate %v: took %v", rate, took)
		}
	}
}

func TestSameFamily(t *testing.T) {
	four, six := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd77::1")
	if sameFamily(four, four) != nil || sameFamily(six, six) != nil {
		t.Error("two of a family were refused")
	}
	if err := sameFamily(four, six); err == nil || !strings.Contains(err.Error(), "--ipv6") {
		t.Errorf("%v", err)
	}
}
