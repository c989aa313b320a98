package memreg

// PD identifies a protection domain: a queue pair reaches only regions of its own.
type PD uint32

// Key names a region on the wire and in gather lists. L_Key and R_Key of a
// region are equal, as in rdma_rxe; the access rights tell what it may be used for.
type Key uint32
