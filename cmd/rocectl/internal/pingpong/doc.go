// Package pingpong is ibv_rc_pingpong: its exchange over TCP and its traffic. Either end may be the original program.
//
// The client connects and says where its queue pair is. The server connects its own, posts its receives and answers.
// The client says done, both close, and the client connects too: so the server is ready before anything can come.
//
// Then the client sends, the server sends the same bytes back, and so on. The original uses one buffer for both, which
// makes its server an echo; this client takes it at its word, sends other bytes each time and checks what comes back.
package pingpong
