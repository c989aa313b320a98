package link

// EtherTypes (IEEE 802 numbers) of the frames a link looks into.
const (
	etherTypeIPv4 = 0x0800
	etherTypeIPv6 = 0x86DD
	etherTypeVLAN = 0x8100
)
