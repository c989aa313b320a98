package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/go-roce/roce/bth"
	"github.com/go-roce/roce/cmd/rocectl/internal/oob"
	"github.com/go-roce/roce/cmd/rocectl/internal/pingpong"
)

func (a *app) pingpongCommand() *cobra.Command {
	c := group(&cobra.Command{
		Use:   "pingpong",
		Short: "Send messages to and fro, against ibv_rc_pingpong or this program",
		Long: `pingpong is the ibv_*_pingpong programs: their exchange over TCP and their traffic. Without HOST it waits for one
client; with HOST it is the client. Either end may be the original program. The client checks what comes back.`,
		Example: `  rocectl pingpong rc -d eth0                 (then, elsewhere:  ibv_rc_pingpong -g 1 10.0.0.1)`,
	})
	c.AddCommand(a.pingpongRCCommand())
	for _, other := range []struct{ name, service string }{
		{"uc", "unreliable connections"}, {"ud", "unreliable datagrams"}, {"srq", "shared receive queues"},
	} {
		c.AddCommand(&cobra.Command{
			Use:                other.name + " [HOST]",
			Short:              "As ibv_" + other.name + "_pingpong; not yet",
			DisableFlagParsing: true,
			RunE: func(*cobra.Command, []string) error {
				return usagef("pingpong %s needs %s, which are not available in this version: use pingpong rc", other.name, other.service)
			},
		})
	}
	return c
}

// rcPingpong is the command of that name.
type rcPingpong struct {
	*app
	pingpong.Params
	port int
	gid  string
}

func (a *app) pingpongRCCommand() *cobra.Command {
	p := &rcPingpong{app: a, Params: pingpong.Defaults()}
	c := &cobra.Command{
		Use:   "rc [HOST]",
		Short: "Over a reliable connection, as ibv_rc_pingpong",
		Args:  atMost(1, "one host"),
		RunE: func(cmd *cobra.Command, args []string) error {
			host := ""
			if len(args) > 0 {
				host = args[0]
			}
			return p.run(cmd.Context(), host)
		},
	}
	f := c.Flags()
	f.IntVarP(&p.port, "port", "p", oob.DefaultPort, "listen on or connect to TCP `PORT`")
	f.IntVarP(&p.Size, "size", "s", p.Size, "`BYTES` of a message")
	f.IntVarP(&p.MTU, "mtu", "m", p.MTU, "path MTU in `BYTES`, the same at both ends")
	f.IntVarP(&p.RxDepth, "rx-depth", "r", p.RxDepth, "receives to post at a time")
	f.Uint64VarP(&p.Iterations, "iters", "n", p.Iterations, "messages in each direction")
	f.StringVarP(&p.gid, "gid-idx", "g", "", "local `GID`, by its index in \"rocectl info\" or as an address (default: the one that fits)")
	return c
}

func (p *rcPingpong) run(ctx context.Context, host string) (err error) {
	if !bth.ValidPathMTU(p.MTU) {
		return usagef("the path MTU -m %d is none of 256, 512, 1024, 2048, 4096", p.MTU)
	}
	if err := p.Validate(); err != nil {
		return &usageError{err}
	}
	if p.port < 1 || p.port > 65535 {
		return usagef("the port -p %d must be 1 to 65535", p.port)
	}
	d, err := p.open(ctx, host, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if p.GID, err = p.chosenGID(d); err != nil {
		return err
	}
	conn, err := p.meet(ctx, host, p.port, false)
	if err != nil {
		return err
	}
	defer conn.Close()
	s := &pingpong.Session{Device: d.Device, Conn: conn, Client: host != "", Params: p.Params, Text: p.text(), Bar: p.bar(), Remark: p.remark}
	defer s.Close()
	r, err := s.Run(ctx)
	if err != nil {
		return err
	}
	p.complain(&r.Counters)
	if p.json {
		return p.printJSON(r)
	}
	return nil
}

// chosenGID is what -g says: an index into the device's list or an address of it.
func (p *rcPingpong) chosenGID(d *device) (netip.Addr, error) {
	if p.gid == "" {
		return netip.Addr{}, nil
	}
	addrs, name := d.Addrs(), d.Info().Interface
	if i, err := strconv.Atoi(p.gid); err == nil {
		if i < 0 || i >= len(addrs) {
			return netip.Addr{}, fmt.Errorf("%s has no GID with index -g %d; it has %v, counted from 0", name, i, addrs)
		}
		return addrs[i], nil
	}
	want, err := netip.ParseAddr(p.gid)
	if err != nil {
		return netip.Addr{}, usagef("the GID -g %q is neither an index nor an IP address", p.gid)
	}
	for _, a := range addrs {
		if a == want.Unmap().WithZone("") {
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("%s does not have the GID -g %v; it has %v", name, want, addrs)
}
