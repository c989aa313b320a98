package demo

import "github.com/go-roce/roce"

// operation is one thing a reliable connection does.
type operation struct {
	name string
	op   roce.WROpcode
	// receives: the peer posts a receive and gets a completion.
	receives bool
	// sizes are the messages that are checked; the measured ones have bulk and small.
	sizes       []int
	bulk, small int
}

// word is what an atomic works on.
const word = 8

var (
	checked    = []int{1, 1025, 65536, 1 << 20}
	operations = []operation{
		{"SEND", roce.WRSend, true, checked, 65536, 64},
		{"SEND with immediate", roce.WRSendImm, true, checked, 65536, 64},
		{"RDMA WRITE", roce.WRWrite, false, checked, 65536, 64},
		{"RDMA WRITE with immediate", roce.WRWriteImm, true, checked, 65536, 64},
		{"RDMA READ", roce.WRRead, false, checked, 65536, 64},
		{"COMPARE AND SWAP", roce.WRCompareSwap, false, []int{word}, word, word},
		{"FETCH AND ADD", roce.WRFetchAdd, false, []int{word}, word, word},
	}
)

// atomic says whether the operation works on a word of the peer's memory.
func (o *operation) atomic() bool { return o.op == roce.WRCompareSwap || o.op == roce.WRFetchAdd }

// immediate says whether the operation carries four bytes beside the message.
func (o *operation) immediate() bool { return o.op == roce.WRSendImm || o.op == roce.WRWriteImm }
