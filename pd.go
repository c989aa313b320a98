package roce

import "github.com/go-roce/roce/memreg"

// PD is a protection domain: queue pairs reach only memory regions of their own.
type PD struct {
	dev *Device
	id  memreg.PD
}

// AllocPD makes a protection domain. It holds nothing that had to be given back.
func (d *Device) AllocPD() *PD { panic("not built yet") }

// RegisterMemory makes b a memory region of the domain. b stays where it is and must
// not be empty. RemoteWrite and RemoteAtomic need LocalWrite as well.
func (pd *PD) RegisterMemory(b []byte, a Access) (*MR, error) { panic("not built yet") }

// CreateQP makes a queue pair in the domain, in RESET, with a random number and initial PSN.
// The error is ErrCQTooSmall when a completion queue has not enough room left.
func (pd *PD) CreateQP(c QPConfig) (*QP, error) { panic("not built yet") }
