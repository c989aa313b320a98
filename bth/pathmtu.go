package bth

// Path MTUs count payload bytes; they are the powers of two from MinPathMTU to MaxPathMTU.
const (
	MinPathMTU = 256
	MaxPathMTU = 4096
)

// linkOverhead is what Linux takes off a link's MTU before it looks for the path
// MTU that fits: IPv6, UDP, BTH, the longest extension headers a payload can have,
// and ICRC. Keeping to it makes both ends of a link choose the same.
const linkOverhead = 80

// ValidPathMTU reports whether n is a path MTU: 256, 512, 1024, 2048 or 4096.
func ValidPathMTU(n int) bool { return n >= MinPathMTU && n <= MaxPathMTU && n&(n-1) == 0 }

// PathMTUFor returns the largest path MTU that a link carries whose longest IP
// packet is linkMTU bytes, 0 if it cannot carry even the smallest.
func PathMTUFor(linkMTU int) int {
	for n := MaxPathMTU; n >= MinPathMTU; n /= 2 {
		if n+linkOverhead <= linkMTU {
			return n
		}
	}
	return 0
}
