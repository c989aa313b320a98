// Command matrix runs this project's tools against Linux Soft-RoCE, cell by cell.
//
// A cell is one line of cells.tsv: a test tool, the role our end plays, and the parameters both ends are given. The
// runner joins two interfaces by veth, puts rdma_rxe on one of them, starts the original program there and ours on the
// other, and judges exit statuses, our --json report, the original's result line and what both say about the bytes.
//
// It needs root and a kernel with rdma_rxe: the host's own, or that of the emulated machine (../vm). ../run does the
// whole of it; ../README.md says how to run one cell by hand.
//
// With -baseline rdma_rxe is at both ends and only original programs run: what fails there is not our fault.
package main
