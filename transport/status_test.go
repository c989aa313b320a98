package transport

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/memreg"
)

func TestStatus_NamesAndValuesAreThoseOfVerbs(t *testing.T) {
	for value, name := range map[uint8]string{
		0: "SUCCESS", 1: "LOC_LEN_ERR", 2: "LOC_QP_OP_ERR", 4: "LOC_PROT_ERR", 5: "WR_FLUSH_ERR", 6: "MW_BIND_ERR", 7: "BAD_RESP_ERR",
		8: "LOC_ACCESS_ERR", 9: "REM_INV_REQ_ERR", 10: "REM_ACCESS_ERR", 11: "REM_OP_ERR", 12: "RETRY_EXC_ERR", 13: "RNR_RETRY_EXC_ERR",
		16: "REM_ABORT_ERR", 19: "FATAL_ERR", 20: "RESP_TIMEOUT_ERR", 21: "GENERAL_ERR", 3: "STATUS_3", 200: "STATUS_200",
	} {
		s := Status(value)
		if s.String() != name {
			t.Errorf("status %d is called %v, want %s", value, s, name)
		}
		err := s.Err()
		if value == 0 {
			if err != nil {
				t.Errorf("success is the error %v", err)
			}
			continue
		}
		var se StatusError
		if !errors.As(err, &se) || Status(se) != s || !strings.HasPrefix(err.Error(), name+" (") {
			t.Errorf("status %d is the error %v", value, err)
		}
	}
	if got := StatusRetryExcErr.Err().Error(); got != "RETRY_EXC_ERR (12): the peer did not answer, and all retries are used up" {
		t.Error(got)
	}
}

func TestNames(t *testing.T) {
	for got, want := range map[string]string{
		StateSQD.String(): "SQD", State(7).String(): "UNKNOWN",
		TypeRC.String(): "RC", TypeUC.String(): "UC", TypeUD.String(): "UD", Type(9).String(): "type 9",
		EventNone.String(): "NONE", EventQPFatal.String(): "QP_FATAL", EventQPReqErr.String(): "QP_REQ_ERR",
		EventAccessErr.String(): "QP_ACCESS_ERR", EventCommEst.String(): "COMM_EST", EventSQDrained.String(): "SQ_DRAINED",
		Event(99).String():                 "UNKNOWN",
		(AttrState | AttrDestQPN).String(): "STATE, DEST_QPN", AttrMask(1 << 25).String(): "bit 25",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestNew_RefusesWhatCannotWork(t *testing.T) {
	good := Config{Type: TypeRC, QPN: 2, Table: memreg.NewTable(func() uint32 { return 1 })}
	if q, err := New(good); err != nil || q.QPN() != 2 || q.State() != StateReset {
		t.Fatalf("%v, %v", q, err)
	}
	for want, change := range map[string]func(*Config){
		"UD is not implemented, only RC":                                       func(c *Config) { c.Type = TypeUD },
		"queue pair numbers go from 2 to 0xfffffe":                             func(c *Config) { c.QPN = 1 },
		"queue pair numbers go from 2 to 0xfffffe (multicast)":                 func(c *Config) { c.QPN = bth.QPNMulticast },
		"Config.Table is nil":                                                  func(c *Config) { c.Table = nil },
		"queue depths -1 and 0 must be 0 to 65536":                             func(c *Config) { c.SendDepth = -1 },
		"queue depths 0 and 65537 must be 0 to 65536":                          func(c *Config) { c.RecvDepth = 65537 },
		"gather lists of 33 and scatter lists of 0 elements must have 1 to 32": func(c *Config) { c.SendSGE = 33 },
		"gather lists of 0 and scatter lists of -1 elements must have 1 to 32": func(c *Config) { c.RecvSGE = -1 },
		"4097 bytes of inline data must be 0 to 4096":                          func(c *Config) { c.MaxInline = 4097 },
		"path MTU 1500 is none of 256, 512, 1024, 2048, 4096":                  func(c *Config) { c.MaxPathMTU = 1500 },
		"a window of 8388608 packets must be 1 to 8388607":                     func(c *Config) { c.Window = bth.MaxPSNDistance },
	} {
		c := good
		change(&c)
		want, _, _ = strings.Cut(want, " (")
		if _, err := New(c); err == nil || !strings.HasSuffix(err.Error(), ": "+want) || !strings.HasPrefix(err.Error(), "transport: cannot make QP 0x") {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}
