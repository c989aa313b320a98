package link

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"golang.org/x/sys/unix"
)

// rxRing is the memory the kernel writes received frames into: a PACKET_RX_RING of
// TPACKET_V2 slots (Documentation/networking/packet_mmap.rst).
//
// V2 and not V3: a V3 block reaches user space when it is full or after a timeout of
// at least a millisecond, which every lone packet would wait for. A V2 slot is there at once,
// and taking it costs as little: 20 to 40 ns and no system call. The price is
// that the kernel wakes a sleeping reader for every packet and not for every
// block, a microsecond at the sender, so a busy reader should look again before it sleeps.
type rxRing struct {
	fd     int
	vnet   bool // a struct virtio_net_hdr is before each frame
	super  superBuffers
	mem    []byte
	slots  [][]byte
	leased []bool // slots not given back yet; the kernel's status cannot tell them from new ones
	next   int
}

const (
	// slotReserve is room before a frame for putting its VLAN tag back; a multiple of TPACKET_ALIGNMENT.
	slotReserve = 16
	// slotHead is what the kernel keeps before the IP header: tpacket2_hdr and
	// sockaddr_ll, with the Ethernet header put in so that the IP header is aligned.
	slotHead = 80 + slotReserve
	// minRing is as far as openRing goes down when memory is short.
	minRing = 1 << 20
)

// openRing gives the socket a ring of about size bytes for frames of up to mtu bytes
// of IP. When memory is short it takes half, and half again.
//
// With vnet the socket has PACKET_VNET_HDR, and super-frames come uncut. Those do not fit into a slot made for the MTU: the kernel
// leaves them with the socket, to be read from there, if its receive buffer is large enough for a good many. Where we may not have such a
// one, slots are 64 KiB.
func openRing(fd, mtu, size int, vnet bool) (*rxRing, error) {
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V2); err != nil {
		return nil, fmt.Errorf("setting TPACKET_V2: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_RESERVE, slotReserve); err != nil {
		return nil, fmt.Errorf("reserving room in the receive ring: %w", err)
	}
	slot := (slotHead + mtu + 63) &^ 63
	if vnet {
		if setReceiveBuffer(fd, superBacklog) >= superBacklog {
			if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_COPY_THRESH, 1); err != nil {
				return nil, fmt.Errorf("setting PACKET_COPY_THRESH: %w", err)
			}
			slot = (slotHead + vnetRoom + mtu + 63) &^ 63
		} else {
			slot = 64 << 10
		}
	}
	block := max(64<<10, 1<<bits.Len(uint(slot-1)))
	for ; ; size /= 2 {
		blocks := max(1, size/block)
		per := block / slot
		req := unix.TpacketReq{
			Block_size: uint32(block), Block_nr: uint32(blocks),
			Frame_size: uint32(slot), Frame_nr: uint32(blocks * per),
		}
		err := unix.SetsockoptTpacketReq(fd, unix.SOL_PACKET, unix.PACKET_RX_RING, &req)
		if errors.Is(err, unix.ENOMEM) && size/2 >= minRing {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("making a receive ring of %d KiB: %w", blocks*block>>10, err)
		}
		mem, err := unix.Mmap(fd, 0, blocks*block, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return nil, fmt.Errorf("mapping a receive ring of %d KiB: %w", blocks*block>>10, err)
		}
		r := &rxRing{fd: fd, vnet: vnet, mem: mem, leased: make([]bool, blocks*per)}
		for b := range blocks {
			for i := range per {
				at := b*block + i*slot
				r.slots = append(r.slots, mem[at:at+slot:at+slot])
			}
		}
		return r, nil
	}
}

func (r *rxRing) close() error { return unix.Munmap(r.mem) }

// ready reports whether the next slot holds a frame.
func (r *rxRing) ready() bool {
	return !r.leased[r.next] && loadStatus(slotHeader(r.slots[r.next]))&unix.TP_STATUS_USER != 0
}

// take leases the next frame, if there is one. truncated says that it was longer than
// the slot and that it was given back at once.
func (r *rxRing) take(f *Frame) (ok, truncated bool) {
	if r.leased[r.next] {
		return false, false
	}
	slot := r.slots[r.next]
	h := slotHeader(slot)
	status := loadStatus(h)
	if status&unix.TP_STATUS_USER == 0 {
		return false, false
	}
	if h.Snaplen < h.Len {
		if status&unix.TP_STATUS_COPY == 0 {
			r.skip(h)
			return true, true
		}
		return r.takeLong(f, h, status)
	}
	i := r.advance()
	from, to := int(h.Mac), int(h.Mac)+int(h.Snaplen)
	segment := 0
	if r.vnet {
		segment = vnetSegment(slot[from-vnetLen:])
	}
	if status&unix.TP_STATUS_VLAN_VALID != 0 {
		from -= 4
		restoreTag(slot[from:], h, status)
	}
	r.leased[i] = true
	*f = Frame{Data: slot[from:to:to], Segment: segment, Token: uint64(i)}
	return true, false
}

// advance goes on to the next slot and returns the index of this one.
func (r *rxRing) advance() int {
	i := r.next
	if r.next++; r.next == len(r.slots) {
		r.next = 0
	}
	return i
}

// skip gives the next slot back at once.
func (r *rxRing) skip(h *unix.Tpacket2Hdr) {
	r.advance()
	storeStatus(h, unix.TP_STATUS_KERNEL)
}

// restoreTag puts the VLAN tag, which the kernel keeps beside the frame, back into
// it: b begins 4 bytes before the Ethernet header.
func restoreTag(b []byte, h *unix.Tpacket2Hdr, status uint32) {
	copy(b[:12], b[4:16])
	tpid := uint16(etherTypeVLAN)
	if status&unix.TP_STATUS_VLAN_TPID_VALID != 0 {
		tpid = h.Vlan_tpid
	}
	binary.BigEndian.PutUint16(b[12:], tpid)
	binary.BigEndian.PutUint16(b[14:], h.Vlan_tci)
}

func (r *rxRing) giveBack(token uint64) {
	if token >= superToken {
		r.super.put(token)
		return
	}
	r.leased[token] = false
	storeStatus(slotHeader(r.slots[token]), unix.TP_STATUS_KERNEL)
}
