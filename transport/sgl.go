package transport

import "github.com/go-roce/roce/memreg"

func sglLength(sgl []SGE) uint64 {
	var n uint64
	for i := range sgl {
		n += uint64(sgl[i].Length)
	}
	return n
}

// gather appends to dst the n bytes at offset off of the memory sgl names.
func (q *QP) gather(dst [][]byte, sgl []SGE, off, n uint32) ([][]byte, memreg.Fault) {
	for i := range sgl {
		if n == 0 {
			break
		}
		e := &sgl[i]
		if off >= e.Length {
			off -= e.Length
			continue
		}
		part := min(n, e.Length-off)
		b, fault := q.cfg.Table.Slice(e.LKey, q.cfg.PD, 0, e.Addr+uint64(off), uint64(part))
		if fault != memreg.FaultNone {
			return dst, fault
		}
		dst = append(dst, b)
		n -= part
		off = 0
	}
	return dst, memreg.FaultNone
}

// scatter copies data to offset off of the memory sgl names, which has room for it.
func (q *QP) scatter(sgl []SGE, off uint32, data []byte) memreg.Fault {
	for i := range sgl {
		if len(data) == 0 {
			break
		}
		e := &sgl[i]
		if off >= e.Length {
			off -= e.Length
			continue
		}
		part := min(uint32(len(data)), e.Length-off)
		b, fault := q.cfg.Table.Slice(e.LKey, q.cfg.PD, memreg.LocalWrite, e.Addr+uint64(off), uint64(part))
		if fault != memreg.FaultNone {
			return fault
		}
		memreg.Copy(b, data[:part])
		data = data[part:]
		off = 0
	}
	return memreg.FaultNone
}

// writable checks that all of sgl may be written to.
func (q *QP) writable(sgl []SGE) memreg.Fault {
	for i := range sgl {
		e := &sgl[i]
		if _, fault := q.cfg.Table.Slice(e.LKey, q.cfg.PD, memreg.LocalWrite, e.Addr, uint64(e.Length)); fault != memreg.FaultNone {
			return fault
		}
	}
	return memreg.FaultNone
}
