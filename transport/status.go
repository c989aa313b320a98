package transport

import "fmt"

// Status is the outcome of a work request, with the values of ibv_wc_status.
// StatusSuccess is the zero value.
type Status uint8

// Completion statuses.
const (
	StatusSuccess      Status = 0
	StatusLocLenErr    Status = 1
	StatusLocQPOpErr   Status = 2
	StatusLocProtErr   Status = 4
	StatusWRFlushErr   Status = 5
	StatusMWBindErr    Status = 6
	StatusBadRespErr   Status = 7
	StatusLocAccessErr Status = 8
	StatusRemInvReqErr Status = 9
	StatusRemAccessErr Status = 10
	StatusRemOpErr     Status = 11
	StatusRetryExcErr  Status = 12
	StatusRNRRetryExc  Status = 13
	StatusRemAbortErr  Status = 16
	StatusFatalErr     Status = 19
	StatusRespTimeout  Status = 20
	StatusGeneralErr   Status = 21
)

var statusText = [...]struct{ name, meaning string }{
	StatusSuccess:      {"SUCCESS", "the work request was carried out"},
	StatusLocLenErr:    {"LOC_LEN_ERR", "the message is longer than the posted receive, or than a message may be"},
	StatusLocQPOpErr:   {"LOC_QP_OP_ERR", "the queue pair found its own state inconsistent"},
	StatusLocProtErr:   {"LOC_PROT_ERR", "a local gather or scatter element is outside its region, or its key is wrong"},
	StatusWRFlushErr:   {"WR_FLUSH_ERR", "the queue pair went to the error state before this work request was carried out"},
	StatusMWBindErr:    {"MW_BIND_ERR", "the memory window could not be bound"},
	StatusBadRespErr:   {"BAD_RESP_ERR", "the peer's response does not fit the request"},
	StatusLocAccessErr: {"LOC_ACCESS_ERR", "the local region does not allow the incoming write"},
	StatusRemInvReqErr: {"REM_INV_REQ_ERR", "the peer refused the request as invalid: too long for its receive, not permitted on its queue pair, or malformed"},
	StatusRemAccessErr: {"REM_ACCESS_ERR", "the peer refused the remote key, address, length or access right"},
	StatusRemOpErr:     {"REM_OP_ERR", "the peer could not complete the request"},
	StatusRetryExcErr:  {"RETRY_EXC_ERR", "the peer did not answer, and all retries are used up"},
	StatusRNRRetryExc:  {"RNR_RETRY_EXC_ERR", "the peer had no receive posted, and all receiver-not-ready retries are used up"},
	StatusRemAbortErr:  {"REM_ABORT_ERR", "the peer aborted the operation"},
	StatusFatalErr:     {"FATAL_ERR", "the endpoint failed"},
	StatusRespTimeout:  {"RESP_TIMEOUT_ERR", "the response did not come in time"},
	StatusGeneralErr:   {"GENERAL_ERR", "the operation failed for a reason without a status of its own"},
}

// String returns the name verbs gives the status, e.g. RETRY_EXC_ERR.
func (s Status) String() string {
	if int(s) < len(statusText) && statusText[s].name != "" {
		return statusText[s].name
	}
	return fmt.Sprintf("STATUS_%d", uint8(s))
}

// Err returns nil for success and otherwise an error that names the status, its
// number and what it means.
func (s Status) Err() error {
	if s == StatusSuccess {
		return nil
	}
	return StatusError(s)
}

// StatusError is a Status other than success as an error.
type StatusError Status

// Error names the status and says what it means.
func (e StatusError) Error() string {
	s := Status(e)
	if int(s) < len(statusText) && statusText[s].meaning != "" {
		return fmt.Sprintf("%v (%d): %s", s, uint8(s), statusText[s].meaning)
	}
	return fmt.Sprintf("%v (%d)", s, uint8(s))
}
