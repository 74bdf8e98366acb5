package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/accelmux/accelmux/core/agent"
	"github.com/accelmux/accelmux/core/deviceplugin"
	"github.com/accelmux/accelmux/core/supervisor"
	"github.com/accelmux/accelmux/core/usage"
)

// childArg is the first argument of a process that is an agent; the second is an order.
const childArg = "agent"

// order is what an agent's process is told.
type order struct {
	Dir, RunDir string
	TakeOver    bool
}

// runChild is `accelmux run` with intervals that do not make a run of thousands of
// steps take a day. All else is as on a node.
func runChild(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return fmt.Errorf("read the agent's order: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return agent.Run(ctx, agent.Options{
		ConfigPath: o.Dir + "/node.yaml", NodeName: "node-1", TakeOver: o.TakeOver,
		KubeletDir: o.Dir + "/kubelet", CDIDir: o.Dir + "/disk/cdi", StateDir: o.Dir + "/disk/state", RunDir: o.RunDir,
		BackendDir: o.Dir + "/programs",
		HostPaths:  agent.HostPaths{Procfs: o.Dir + "/proc"},
		Log:        slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Timing: agent.Timing{
			ResetBackoff:   20 * time.Millisecond,
			ReleaseBackoff: 20 * time.Millisecond,
			SuccessorWait:  time.Millisecond,
			UsagePoll:      100 * time.Millisecond,
			Usage: usage.Timing{
				Quiet: time.Millisecond, Grace: 500 * time.Millisecond, Unseen: 500 * time.Millisecond, Settle: 20 * time.Millisecond,
				Look: 20 * time.Millisecond, Spacing: 20 * time.Millisecond, RetryMin: 20 * time.Millisecond, RetryMax: 200 * time.Millisecond,
			},
			Supervisor: supervisor.Timing{
				Backoff: 50 * time.Millisecond, BackoffLimit: 200 * time.Millisecond, ProgramPoll: 50 * time.Millisecond,
				Failures: 12, Window: 10 * time.Second, Quarantine: 500 * time.Millisecond, QuarantineLimit: time.Second,
				Terminate: 300 * time.Millisecond, Retire: 5 * time.Second, Prepare: 10 * time.Second, Release: 5 * time.Second,
			},
			Plugin: deviceplugin.Timing{
				Backoff: 20 * time.Millisecond, MaxBackoff: 200 * time.Millisecond, Poll: 200 * time.Millisecond, Grace: 200 * time.Millisecond,
				Connect: 3 * time.Second,
			},
		},
	})
}
