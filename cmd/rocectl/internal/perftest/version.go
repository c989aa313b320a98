package perftest

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// Version is the number by which perftest's exchange is known, e.g. 6.06 of release 4.5-0.17. perftest compares it as
// a decimal fraction, so 6.1 is later than 6.06; it is kept in hundredths.
type Version int

const (
	// Announced is what this end says it speaks: the exchange of release 4.5-0.17. A version from 5.70 up is taken by
	// every perftest since 2017, and one below 6.28 keeps newer ones from sending their parameters as a C struct.
	Announced Version = 606
	// oldest is the first version that sends its reports as this package reads them.
	oldest Version = 570
	// alwaysNegotiates sends its parameters whatever the peer announced, and waits for the peer's for ever.
	alwaysNegotiates Version = 628
)

const versionLen = 16

// String returns the version as perftest writes it.
func (v Version) String() string { return fmt.Sprintf("%d.%02d", v/100, v%100) }

func (v Version) encode() []byte {
	b := make([]byte, versionLen)
	copy(b, v.String())
	return b
}

func parseVersion(b []byte) (Version, error) {
	text, _, _ := bytes.Cut(b, []byte{0})
	whole, fraction, ok := strings.Cut(string(text), ".")
	major, err := strconv.ParseUint(whole, 10, 16)
	if ok && err == nil && (len(fraction) == 1 || len(fraction) == 2) {
		minor, err := strconv.ParseUint((fraction + "0")[:2], 10, 16)
		if err == nil {
			return Version(major*100 + minor), nil
		}
	}
	return 0, fmt.Errorf("the peer's first message %q is not a version of perftest's exchange: is another program at the other end?", b)
}

// check says whether a peer of this version can be talked to.
func (v Version) check() error {
	switch {
	case v < oldest:
		return fmt.Errorf("version skew: the peer speaks version %v of perftest's exchange, older than %v, the first that this end understands: use a perftest there that is newer than 2017",
			v, oldest)
	case v == alwaysNegotiates:
		return fmt.Errorf("version skew: the peer speaks version %v of perftest's exchange (release 26.01), which insists on parameters that only its own version sends; this end speaks %v: use perftest 26.04 or later there, or 25.x or earlier",
			v, Announced)
	}
	return nil
}
