package sniff

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/go-roce/roce/link"
)

// interfaceSource captures on an interface through a packet socket.
type interfaceSource struct {
	file *os.File // the socket; the runtime's poller makes its reads end when it is closed
	buf  []byte
	// vnet is the bytes before each frame that tell whether it is a super-frame; frame, segment and next are what is left
	// of one.
	vnet          int
	cutter        link.Cutter
	frame         []byte
	segment, next int
}

// maxFrame is the longest frame that can come: a super-frame of 64 KiB and its headers.
const maxFrame = 1<<16 + 64

// OpenInterface captures what an interface sends and receives, as far as it is for UDP port 4791. Close ends a Next
// that waits, with io.EOF.
func OpenInterface(name string) (Source, error) {
	ifi, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("there is no interface %q: see \"rocectl info\"", name)
	}
	if ifi.Flags&net.FlagUp == 0 {
		return nil, fmt.Errorf("the interface %s is down: ip link set %s up", name, name)
	}
	// Protocol 0 until the filter is in place, so that nothing else gets into the buffer.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		if errors.Is(err, unix.EPERM) {
			return nil, fmt.Errorf("capturing on %s needs CAP_NET_RAW: run it with sudo, or read a file with -r", name)
		}
		return nil, fmt.Errorf("cannot capture on %s: %w", name, err)
	}
	s := &interfaceSource{file: os.NewFile(uintptr(fd), "capture on "+name), buf: make([]byte, maxFrame)}
	filter := unix.SockFprog{Len: uint16(len(rocePort)), Filter: &rocePort[0]}
	err = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &filter)
	if unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1) == nil {
		s.vnet = link.VnetLen
	}
	if err == nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 32<<20) // a burst is lost without it; needs CAP_NET_ADMIN
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: ifi.Index})
	}
	if err != nil {
		s.file.Close()
		return nil, fmt.Errorf("cannot capture on %s: %w", name, err)
	}
	return s, nil
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

func (s *interfaceSource) Next() ([]byte, time.Time, error) {
	if s.next < s.cutter.Packets(s.frame, s.segment) && s.segment > 0 {
		s.next++
		return s.cutter.Packet(s.frame, s.segment, s.next-1), time.Now(), nil
	}
	n, err := s.file.Read(s.buf)
	switch {
	case err == nil && s.vnet > 0 && n > s.vnet:
		s.frame, s.segment, s.next = s.buf[s.vnet:n], link.VnetSegment(s.buf), 1
		return s.cutter.Packet(s.frame, s.segment, 0), time.Now(), nil
	case err == nil:
		return s.buf[:n], time.Now(), nil
	case errors.Is(err, os.ErrClosed):
		return nil, time.Time{}, io.EOF
	case errors.Is(err, unix.ENETDOWN):
		return nil, time.Time{}, errors.New("the interface went down")
	}
	return nil, time.Time{}, err
}

func (s *interfaceSource) Close() error { return s.file.Close() }

// rocePort is the classic BPF program for "udp dst port 4791" over IPv4 without options or IPv6 without extension
// headers. The kernel has taken a VLAN tag off before it runs.
var rocePort = []unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: 12}, // EtherType
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.ETH_P_IP, Jf: 5},
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 14 + 9}, // protocol
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.IPPROTO_UDP, Jf: 8},
	{Code: unix.BPF_LDX | unix.BPF_B | unix.BPF_MSH, K: 14},    // header length
	{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_IND, K: 14 + 2}, // destination port
	{Code: unix.BPF_JMP | unix.BPF_JA, K: 4},                   // compare it
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.ETH_P_IPV6, Jf: 4},
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 14 + 6}, // next header
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.IPPROTO_UDP, Jf: 2},
	{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: 14 + 40 + 2}, // destination port
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: 4791, Jt: 1},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0xFFFFFFFF},
}
