package link

import (
	"fmt"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Packet types of the kernel's SKF_AD_PKTTYPE (linux/if_packet.h): to us, to all, to
// a group. What is higher is for another host, or going out.
const packetMulticast = 2

// roceFilter is the classic BPF program of the receive socket. It passes what is for
// UDP port 4791, over IPv4 (no fragment) or IPv6 (no extension header), addressed to this host.
//
// The kernel takes a frame's outer VLAN tag into its metadata before it runs the
// program. A frame of a VLAN is not for the untagged interface below it, so only
// tags with VLAN ID 0, which carry nothing but a priority, pass. A tag still in the frame comes from a
// VLAN interface that was told to leave it there (reorder_hdr off): that is this VLAN's.
func roceFilter() []bpf.Instruction {
	const drop, pass = "drop", "pass"
	p := program{labels: map[string]int{}}
	p.add(bpf.LoadExtension{Num: bpf.ExtType})
	p.jump(bpf.JumpGreaterThan, packetMulticast, drop)
	p.add(bpf.LoadExtension{Num: bpf.ExtVLANTagPresent})
	p.jump(bpf.JumpEqual, 0, "untagged")
	p.add(bpf.LoadExtension{Num: bpf.ExtVLANTag})
	p.add(bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0xFFF})
	p.jump(bpf.JumpNotEqual, 0, drop)
	p.label("untagged")
	p.add(bpf.LoadAbsolute{Off: 12, Size: 2})
	p.jump(bpf.JumpEqual, etherTypeVLAN, "tagged")
	for _, l3 := range []struct {
		at   uint32
		name string
	}{{14, "untagged"}, {18, "tagged"}} {
		v4, v6 := l3.name+" ipv4", l3.name+" ipv6"
		if l3.at == 18 {
			p.label("tagged")
			p.add(bpf.LoadAbsolute{Off: 16, Size: 2})
		}
		p.jump(bpf.JumpEqual, etherTypeIPv4, v4)
		p.jump(bpf.JumpEqual, etherTypeIPv6, v6)
		p.goTo(drop)

		p.label(v4)
		p.add(bpf.LoadAbsolute{Off: l3.at + 9, Size: 1})
		p.jump(bpf.JumpNotEqual, unix.IPPROTO_UDP, drop)
		p.add(bpf.LoadAbsolute{Off: l3.at + 6, Size: 2})
		p.jump(bpf.JumpBitsSet, 0x3FFF, drop) // more fragments, or not the first
		p.add(bpf.LoadMemShift{Off: l3.at})   // X = header length
		p.add(bpf.LoadIndirect{Off: l3.at + 2, Size: 2})
		p.jump(bpf.JumpEqual, rocePort, pass)
		p.goTo(drop)

		p.label(v6)
		p.add(bpf.LoadAbsolute{Off: l3.at + 6, Size: 1})
		p.jump(bpf.JumpNotEqual, unix.IPPROTO_UDP, drop)
		p.add(bpf.LoadAbsolute{Off: l3.at + 40 + 2, Size: 2})
		p.jump(bpf.JumpEqual, rocePort, pass)
		p.goTo(drop)
	}
	p.label(pass)
	p.add(bpf.RetConstant{Val: 1 << 18}) // longer than any frame
	p.label(drop)
	p.add(bpf.RetConstant{Val: 0})
	return p.link()
}

// program puts a BPF program together with jumps to labels further on.
type program struct {
	ins    []bpf.Instruction
	labels map[string]int
	fixes  []fix
}

// fix is a jump at an instruction whose distance is not known yet.
type fix struct {
	at    int
	label string
}

func (p *program) add(i bpf.Instruction) { p.ins = append(p.ins, i) }

func (p *program) label(name string) { p.labels[name] = len(p.ins) }

// jump goes to the label if the test holds for the accumulator, and on otherwise.
func (p *program) jump(t bpf.JumpTest, val uint32, label string) {
	p.fixes = append(p.fixes, fix{len(p.ins), label})
	p.add(bpf.JumpIf{Cond: t, Val: val})
}

func (p *program) goTo(label string) {
	p.fixes = append(p.fixes, fix{len(p.ins), label})
	p.add(bpf.Jump{})
}

// link fills in the distances. Classic BPF only jumps forwards.
func (p *program) link() []bpf.Instruction {
	for _, f := range p.fixes {
		skip := p.labels[f.label] - f.at - 1
		switch i := p.ins[f.at].(type) {
		case bpf.Jump:
			i.Skip = uint32(skip)
			p.ins[f.at] = i
		case bpf.JumpIf:
			i.SkipTrue = uint8(skip)
			p.ins[f.at] = i
		}
	}
	return p.ins
}

// attachFilter makes the kernel drop what the program does not pass.
func attachFilter(fd int, ins []bpf.Instruction) error {
	raw, err := bpf.Assemble(ins)
	if err != nil {
		return fmt.Errorf("assembling the packet filter: %w", err)
	}
	code := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		code[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &prog); err != nil {
		return fmt.Errorf("attaching the packet filter: %w", err)
	}
	return nil
}
