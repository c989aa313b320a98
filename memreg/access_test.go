package memreg

import (
	"strings"
	"testing"
)

func TestAccess_HasTheNamesAndValuesOfVerbs(t *testing.T) {
	for a, want := range map[Access]string{
		0:                         "0",
		1:                         "LOCAL_WRITE",
		2:                         "REMOTE_WRITE",
		4:                         "REMOTE_READ",
		8:                         "REMOTE_ATOMIC",
		16:                        "MW_BIND",
		32:                        "ZERO_BASED",
		RemoteInvalidate:          "REMOTE_INVALIDATE",
		LocalWrite | RemoteRead:   "LOCAL_WRITE|REMOTE_READ",
		1 << 20:                   "0x100000",
		RemoteAtomic | 1<<20 | 64: "REMOTE_ATOMIC|0x100040",
	} {
		if got := a.String(); got != want {
			t.Errorf("Access(%#x) = %s, want %s", uint32(a), got, want)
		}
	}
}

func TestAccess_EveryKnownRightHasAName(t *testing.T) {
	if s := knownAccess.String(); strings.Contains(s, "0x") || strings.Count(s, "|") != len(accessNames)-1 {
		t.Errorf("all rights: %s", s)
	}
}

func TestFault_SaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		f          Fault
		name, says string
	}{
		{FaultNone, "none", "allowed"},
		{FaultKey, "key", "no region has this key"},
		{FaultPD, "pd", "protection domain"},
		{FaultAccess, "access", "access right"},
		{FaultBounds, "bounds", "not inside the region"},
		{FaultAlign, "align", "multiple of 8"},
		{99, "fault 99", "memreg: fault 99"},
	} {
		if got := c.f.String(); got != c.name {
			t.Errorf("Fault(%d).String() = %q, want %q", c.f, got, c.name)
		}
		var err error = c.f
		if got := err.Error(); !strings.HasPrefix(got, "memreg: ") || !strings.Contains(got, c.says) {
			t.Errorf("Fault(%d).Error() = %q, want something about %q", c.f, got, c.says)
		}
	}
}
