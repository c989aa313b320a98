package link

import (
	"encoding/binary"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// With PACKET_VNET_HDR a struct virtio_net_hdr (linux/virtio_net.h) precedes every frame of a packet socket. It
// says whether the frame is to be cut into UDP datagrams, or came uncut.
const (
	vnetLen = 10
	// vnetRoom is the room for it before a transmit buffer, a multiple of what aligns the frame.
	vnetRoom = 16
	// maxSuper is the longest super-frame. A slot of the receive ring that takes one is 64 KiB with what the
	// kernel puts before it.
	maxSuper = 64<<10 - 256
	// maxSegments is the most packets in one, UDP_MAX_SEGMENTS of kernels before 6.9.
	maxSegments = 64

	gsoECN = 0x80 // VIRTIO_NET_HDR_GSO_ECN
)

// putVnet writes the header of a frame that the kernel sends as it is.
func putVnet(b []byte) { clear(b[:vnetLen]) }

// putVnetSegments writes the header of a super-frame and leaves in the frame what the kernel
// needs to cut it: the UDP checksum of the pseudo header, which it completes for each.
func putVnetSegments(b []byte, l layout, head []byte, total, segment int) {
	native := binary.NativeEndian
	b[0], b[1] = unix.VIRTIO_NET_HDR_F_NEEDS_CSUM, unix.VIRTIO_NET_HDR_GSO_UDP_L4
	native.PutUint16(b[2:], uint16(l.payload))
	native.PutUint16(b[4:], uint16(segment))
	native.PutUint16(b[6:], uint16(l.udp))
	native.PutUint16(b[8:], 6) // where the checksum is in the UDP header
	binary.BigEndian.PutUint16(head[l.udp+6:], l.pseudoSum(head, total-l.udp))
}

// pseudoSum returns the sum over the UDP pseudo header (RFC 768, RFC 8200 8.1), not complemented.
func (l layout) pseudoSum(head []byte, udpLen int) uint16 {
	addrs := head[l.ip+12 : l.ip+20]
	if l.v6 {
		addrs = head[l.ip+8 : l.ip+40]
	}
	const udp = 17
	sum := uint32(udp) + uint32(udpLen)
	for i := 0; i < len(addrs); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(addrs[i:]))
	}
	for sum > 0xFFFF {
		sum = sum>>16 + sum&0xFFFF
	}
	return uint16(sum)
}

// vnetSegment returns the segment size that a received header tells, 0 for an ordinary frame.
func vnetSegment(b []byte) int {
	if b[1]&^gsoECN != unix.VIRTIO_NET_HDR_GSO_UDP_L4 {
		return 0
	}
	return int(binary.NativeEndian.Uint16(b[4:]))
}

// VnetLen is the length of the struct virtio_net_hdr before each frame of a packet socket with PACKET_VNET_HDR.
const VnetLen = vnetLen

// VnetSegment returns the [Frame.Segment] that such a header tells.
func VnetSegment(header []byte) int { return vnetSegment(header) }

// superFramesSince is the kernel from which a packet socket takes VIRTIO_NET_HDR_GSO_UDP_L4.
var superFramesSince = [2]int{6, 2}

// kernelTakesSuperFrames tells it by the kernel's version: asking would mean to send one.
func kernelTakesSuperFrames() bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	return releaseIsAtLeast(unix.ByteSliceToString(u.Release[:]), superFramesSince)
}

// releaseIsAtLeast compares the beginning of a kernel release, as in 6.12.3-arm64.
func releaseIsAtLeast(release string, least [2]int) bool {
	var have [2]int
	for i, part := range strings.SplitN(release, ".", 3) {
		if i == len(have) {
			break
		}
		end := strings.IndexFunc(part, func(r rune) bool { return r < '0' || r > '9' })
		if end < 0 {
			end = len(part)
		}
		have[i], _ = strconv.Atoi(part[:end])
	}
	return have[0] > least[0] || have[0] == least[0] && have[1] >= least[1]
}
