package perftest

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/go-roce/roce/cmd/rocectl/internal/measure"
)

// bwReport is what an end of a bandwidth test tells the other about its own direction, in five messages of 8 bytes.
//
// The server of a unidirectional test has nothing to tell, and the original sends whatever its stack held: it must not
// be looked at.
type bwReport struct {
	size       uint64
	iterations uint64 // of all queue pairs
	peak, avg  float64
	rate       float64 // messages a microsecond
}

const bwReportFields = 5

func (r *bwReport) field(i int) [8]byte {
	v := [bwReportFields]uint64{r.size, r.iterations, math.Float64bits(r.peak), math.Float64bits(r.avg), math.Float64bits(r.rate)}[i]
	return [8]byte(binary.BigEndian.AppendUint64(nil, v))
}

func (r *bwReport) setField(i int, b [8]byte) {
	v := binary.BigEndian.Uint64(b[:])
	switch i {
	case 0:
		r.size = v
	case 1:
		r.iterations = v
	case 2:
		r.peak = math.Float64frombits(v)
	case 3:
		r.avg = math.Float64frombits(v)
	case 4:
		r.rate = math.Float64frombits(v)
	}
}

// bytes and seconds are the peer's measurement. They come from the message rate: whether the average is in MiB/s or
// Gbit/s depends on the peer's --report_gbits and is not said.
func (r *bwReport) bytes() uint64 { return r.size * r.iterations }

func (r *bwReport) took() time.Duration {
	us := float64(r.iterations) / r.rate
	if longest := 24 * 365 * time.Hour; !(us >= 0 && us < float64(longest/time.Microsecond)) {
		return 0
	}
	return time.Duration(us * float64(time.Microsecond))
}

// peakGbit is the peer's peak in Gbit/s, whatever its unit: what it is to its average is known.
func (r *bwReport) peakGbit() float64 {
	took := r.took()
	if took == 0 || !(r.avg > 0) || !(r.peak >= r.avg) {
		return 0
	}
	return r.peak / r.avg * measure.Gbit(r.bytes(), took)
}
