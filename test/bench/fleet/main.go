// Command fleet measures what a cluster of agents costs its API server: a real
// kube-apiserver and etcd, a Node, a connection and a token for each of 1,000
// agents, and the rights of deployments/manifests. The README in test/bench says
// what was measured.
//
// It runs the programs etcd and kube-apiserver in PATH: `make bench-fleet` builds
// them.
//
// An agent here is what the real one is to the API server, core/kubeapi,
// core/profile and core/events, and not the whole of it: 1,000 of them in one
// process would need as many backend processes and more inotify instances than a
// machine has, and kubelet's side of an agent asks the API server for nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/accelmux/accelmux/test/bench/rig"
)

func main() {
	manifests := flag.String("manifests", "deployments/manifests/accelmux.yaml", "`file` with the agents' account and rights")
	agents := flag.Int("agents", 1000, "how many agents")
	steady := flag.Duration("steady", time.Minute, "how long agents at rest are measured")
	away := flag.Duration("away", 20*time.Second, "how long the API server is away")
	flag.Parse()
	if err := rig.FlagsOnly(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	err := measure(ctx, *manifests, *agents, *steady, *away)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

// measure starts the servers, measures, and leaves nothing behind.
func measure(ctx context.Context, manifests string, agents int, steady, away time.Duration) (err error) {
	dir, err := os.MkdirTemp("", "fleet")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	plane, err := startControlPlane(ctx, dir)
	if err != nil {
		return errors.Join(err, lastLines(filepath.Join(dir, "log")))
	}
	defer func() { err = errors.Join(err, plane.stop()) }()
	admin, err := plane.admin()
	if err != nil {
		return err
	}
	booted, err := admin.metrics(ctx)
	if err != nil {
		return err
	}
	account, err := admin.account(ctx, manifests)
	if err != nil {
		return err
	}
	var names []string
	for i := range agents {
		names = append(names, fmt.Sprintf("node-%04d", i))
	}
	tokens, err := admin.nodes(ctx, names, account)
	if err != nil {
		return err
	}
	fleet, err := newFleet(plane, names, tokens, filepath.Join(dir, "state"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fleet.stop()) }()
	b := &bench{plane: plane, admin: admin, fleet: fleet, steady: steady, away: away, boot: booted.cpu()}
	return b.run(ctx)
}

// lastLines are the end of a log, as an error.
func lastLines(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return fmt.Errorf("the servers' log ends with:\n%s", text[max(0, len(text)-2000):])
}
