package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/go-roce/roce/cmd/rocectl/internal/netinfo"
)

func (a *app) infoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "info [INTERFACE]",
		Short: "Tell which interfaces there are and which links work on them",
		Long: `info lists network interfaces: driver, queues, MTU and the path MTU it allows, GIDs with their indices (for -x), which
links work and why the others do not, and who owns UDP port 4791. It tries the links out, so what it says depends on
the privilege it is run with.`,
		Args: atMost(1, "one interface"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := a.dev
			if len(args) > 0 {
				name = args[0]
			}
			r, err := netinfo.Look(cmd.Context(), name)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(r)
			}
			printInfo(a.stdout, r)
			return nil
		},
	}
}

func printInfo(w io.Writer, r *netinfo.Report) {
	for i := range r.Interfaces {
		n := &r.Interfaces[i]
		state := "down"
		if n.Up {
			state = "up"
		}
		carries := "too small for RoCE"
		if n.PathMTU > 0 {
			carries = fmt.Sprintf("path MTU %d", n.PathMTU)
		}
		driver := n.Driver
		if driver == "" {
			driver = "unknown"
		}
		fmt.Fprintf(w, "%s: %s, driver %s, %d receive and %d transmit queues, MTU %d (%s)\n", n.Name, state, driver, n.RxQueues, n.TxQueues, n.MTU, carries)
		for j, gid := range n.GIDs {
			fmt.Fprintf(w, "    GID %d: %s\n", j, gid)
		}
		for _, l := range n.Links {
			if l.Works {
				fmt.Fprintf(w, "    %-4s works: %s\n", l.Kind, l.Mode)
			} else {
				fmt.Fprintf(w, "    %-4s does not work: %s\n", l.Kind, strings.TrimPrefix(l.Reason, "roce: "))
			}
		}
	}
	fmt.Fprintf(w, "UDP port 4791: %s\n", r.Port)
}
