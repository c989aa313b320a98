package link

import "fmt"

// QPNRange is the queue pair numbers this process may use on the link: First
// and the Count-1 after it. Links that several processes share hand out disjoint ones.
type QPNRange struct {
	First, Count uint32
}

// AllQPNs are all queue pair numbers but 0 and 1, which are the management queue pairs'
// (IBA 3.9.3), and 0xFFFFFF, which is multicast's.
var AllQPNs = QPNRange{First: 2, Count: 0xFFFFFF - 2}

// End returns the number behind the last one.
func (r QPNRange) End() uint32 { return r.First + r.Count }

func (r QPNRange) overlaps(o QPNRange) bool { return r.First < o.End() && o.First < r.End() }

// String returns the first and last number, e.g. "0x010000 to 0x01ffff".
func (r QPNRange) String() string { return fmt.Sprintf("0x%06x to 0x%06x", r.First, r.End()-1) }
