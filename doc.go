// Package roce is a RoCEv2 endpoint: RDMA over UDP port 4791, with the API of verbs
// and without an RDMA device, a kernel module, libibverbs or cgo. The peer can be
// the same library, a hardware RNIC or Linux Soft-RoCE.
//
// # Objects
//
// A [Device] sits on a network interface ([Open]) or on any other link
// ([OpenLink]). It makes protection domains ([PD]), which hold memory regions
// ([MR]) and queue pairs ([QP]), and completion queues ([CQ]). Two queue pairs
// exchange their [Endpoint] by some other way, call [QP.Connect], and from then
// on carry out work requests: [QP.PostSend] and [QP.PostRecv] queue them,
// [CQ.Poll] tells how they ended.
//
// Every method may be called by any number of goroutines.
//
// # What differs from verbs
//
//   - A completion queue cannot overflow: [PD.CreateQP] reserves the depths of the
//     queue pair and fails with [ErrCQTooSmall] instead.
//   - Every posted work request completes exactly once, also when its queue pair or
//     the device is closed: then with WR_FLUSH_ERR. Sends that are not Signaled
//     complete silently and free their slot by themselves.
//   - L_Key and R_Key of a region are the same key.
//   - Only the addresses of the interface are GIDs, all of them RoCE v2, and there
//     is one port with one partition key, 0xFFFF.
//
// # Progress
//
// By default a goroutine for each queue of the link drives everything. It polls
// for [Config].Spin after the last work, then sleeps; a device with nothing to do uses no
// processor time. With [Config].Manual there is none: [CQ.Poll], [CQ.Wait] and
// [Device.Progress] do the work in the goroutine that calls them, which saves the
// hand-over and gives the lowest latency, and nothing happens in between.
//
// # Memory
//
// Memory named by a work request belongs to the device until the completion is
// polled, and to the program afterwards. Memory that a peer writes by RDMA WRITE or
// atomics without a completion here is polled by [MR.LoadUint8] and
// [MR.LoadUint64] and written by [MR.StoreUint64].
package roce
