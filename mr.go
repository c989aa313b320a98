package roce

import "github.com/go-roce/roce/memreg"

// MR is a memory region.
type MR struct {
	dev    *Device
	region *memreg.Region
}

// Key returns the region's key: the L_Key of a gather list and the R_Key for the peer.
func (m *MR) Key() Key { return m.region.Key() }

// Addr returns the virtual address of the first byte, in the terms of gather lists and of the peer.
func (m *MR) Addr() uint64 { return m.region.Addr() }

// Len returns the length in bytes.
func (m *MR) Len() int { return len(m.region.Bytes()) }

// Bytes returns the memory itself.
func (m *MR) Bytes() []byte { return m.region.Bytes() }

// SGE names the n bytes at offset off. Whether they lie in the region is checked
// when the work request is carried out.
func (m *MR) SGE(off, n int) SGE {
	return SGE{Addr: m.Addr() + uint64(off), Length: uint32(n), LKey: m.Key()}
}

// LoadUint8 reads the byte at offset off while a peer may write it. A program that
// sees the last byte of a message this way sees the whole message.
func (m *MR) LoadUint8(off int) byte { return m.region.LoadUint8(off) }

// LoadUint64 reads the 8 bytes at offset off in one piece and in host byte order, while
// a peer may write them. It panics if they are not aligned in memory.
func (m *MR) LoadUint64(off int) uint64 { return m.region.LoadUint64(off) }

// StoreUint64 writes 8 bytes at offset off in one piece, while a peer may read them.
func (m *MR) StoreUint64(off int, v uint64) { m.region.StoreUint64(off, v) }

// Deregister ends the use of the region. Once it has returned the device does not
// touch the memory any more: work requests and requests of peers that name it fail.
func (m *MR) Deregister() error {
	m.dev.regMu.Lock()
	err := m.dev.table.Deregister(m.region.Key())
	m.dev.regMu.Unlock()
	if err != nil {
		return opError("deregister memory", 0, err)
	}
	m.dev.grace()
	return nil
}
