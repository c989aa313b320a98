package bth

// PSN is a 24-bit packet sequence number. PSNs are serial numbers: they wrap
// from 0xFFFFFF to 0 and compare within half the space (IBA 9.7.1).
type PSN uint32

const psnMask = 0xFFFFFF

// MaxPSNDistance is half the PSN space: two PSNs further apart than this cannot
// be ordered, so no requester may have more packets outstanding.
const MaxPSNDistance = 1 << 23

// Add returns the PSN n packets after p.
func (p PSN) Add(n uint32) PSN { return (p + PSN(n)) & psnMask }

// Next returns the PSN after p.
func (p PSN) Next() PSN { return p.Add(1) }

// Prev returns the PSN before p.
func (p PSN) Prev() PSN { return (p - 1) & psnMask }

// Diff returns how far p lies after q, in [-2^23, 2^23): negative when p is the
// older one.
func (p PSN) Diff(q PSN) int { return int(int32((p-q)<<8) >> 8) }

// Before reports whether p is older than q.
func (p PSN) Before(q PSN) bool { return p.Diff(q) < 0 }

// QPN is a 24-bit queue pair number.
type QPN uint32

const (
	// QPNGSI is the general service interface, where connection management arrives.
	QPNGSI QPN = 1
	// QPNMulticast is the destination of every UD multicast packet.
	QPNMulticast QPN = 0xFFFFFF
	// MaxQPN is the highest number a unicast queue pair can have.
	MaxQPN QPN = 0xFFFFFE
)

// DefaultPKey is the full-member default partition key, the only one RoCE peers use.
const DefaultPKey uint16 = 0xFFFF
