package transport

import (
	"math/bits"

	"github.com/go-roce/roce/bth"
)

// psnSpan is how far apart the members of a psnSet may lie. It divides 2^24, so that a
// PSN keeps its bit across the wrap.
const psnSpan = 1024

// psnSet is a set of PSNs that lie less than psnSpan apart.
type psnSet struct {
	words [psnSpan / 64]uint64
	n     int
}

func (s *psnSet) has(p bth.PSN) bool {
	return s.n > 0 && s.words[p%psnSpan/64]>>(p%64)&1 != 0
}

func (s *psnSet) add(p bth.PSN) {
	if w, bit := &s.words[p%psnSpan/64], uint64(1)<<(p%64); *w&bit == 0 {
		*w |= bit
		s.n++
	}
}

func (s *psnSet) remove(p bth.PSN) {
	if w, bit := &s.words[p%psnSpan/64], uint64(1)<<(p%64); *w&bit != 0 {
		*w &^= bit
		s.n--
	}
}

// removeRange removes the n PSNs from p on.
func (s *psnSet) removeRange(p bth.PSN, n uint32) {
	for ; n > 0 && s.n > 0; n-- {
		s.remove(p)
		p = p.Next()
	}
}

// first returns the first member of the n PSNs from p on.
func (s *psnSet) first(p bth.PSN, n uint32) (bth.PSN, bool) {
	if s.n == 0 {
		return 0, false
	}
	n = min(n, psnSpan)
	for n > 0 {
		step := min(64-uint32(p%64), n)
		if w := s.words[p%psnSpan/64] >> (p % 64); w != 0 {
			if i := uint32(bits.TrailingZeros64(w)); i < step {
				return p.Add(i), true
			}
		}
		p, n = p.Add(step), n-step
	}
	return 0, false
}
