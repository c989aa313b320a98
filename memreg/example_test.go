package memreg_test

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"

	"github.com/go-roce/roce/memreg"
)

// keys gives unpredictable keys.
func keys() uint32 {
	var b [4]byte
	rand.Read(b[:]) // does not fail
	return binary.NativeEndian.Uint32(b[:])
}

func Example() {
	const pd memreg.PD = 1
	table := memreg.NewTable(keys)
	buffer := make([]byte, 4096)
	region, err := table.Register(pd, buffer, memreg.Options{
		Access: memreg.LocalWrite | memreg.RemoteWrite | memreg.ZeroBased,
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	// An RDMA WRITE of 5 bytes to virtual address 100 came in.
	payload := []byte("hello")
	b, fault := table.Slice(region.Key(), pd, memreg.RemoteWrite, 100, uint64(len(payload)))
	if fault == memreg.FaultNone {
		memreg.Copy(b, payload)
	}
	fmt.Printf("%s\n", buffer[100:105])

	// What the peer may not do.
	_, fault = table.Slice(region.Key(), pd, memreg.RemoteRead, 100, 5)
	fmt.Println(fault)
	_, fault = table.Slice(region.Key(), pd, memreg.RemoteWrite, 4095, 2)
	fmt.Println(fault)
	// Output:
	// hello
	// memreg: the region was not registered with the access right that this operation needs
	// memreg: the address range is not inside the region
}

func ExampleTable_FetchAdd() {
	const pd memreg.PD = 1
	table := memreg.NewTable(keys)
	region, err := table.Register(pd, make([]byte, 64), memreg.Options{
		Access: memreg.LocalWrite | memreg.RemoteAtomic,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	region.StoreUint64(8, 40)
	old, _ := table.FetchAdd(region.Key(), pd, region.Addr()+8, 2)
	fmt.Println(old, region.LoadUint64(8))
	_, fault := table.FetchAdd(region.Key(), pd, region.Addr()+9, 2)
	fmt.Println(fault)
	// Output:
	// 40 42
	// memreg: an atomic's address must be a multiple of 8
}

func ExampleTable_Register_refused() {
	table := memreg.NewTable(keys)
	_, err := table.Register(1, make([]byte, 64), memreg.Options{Access: memreg.RemoteWrite})
	fmt.Println(err)
	// Output:
	// memreg: cannot register memory with access REMOTE_WRITE: REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE as well
}
