package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/accelmux/accelmux/cmd/arguments"
	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/supervisor"
)

const (
	// askEvery is the pause between two questions to the agents, answerWithin how long each may take to answer.
	askEvery     = 200 * time.Millisecond
	answerWithin = 5 * time.Second
)

func newAwaitPauseCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "await-pause BACKEND...",
		Short: "Run until SIGTERM, and then until no agent runs the backends",
		Long: `Runs in a pod of its own, for whose end a vendor's tools wait before they change a driver (chart value nvidiaClient).
After SIGTERM it asks the agents of the node, and ends when each of them has paused the backends because of a label of the
Node (pausedWhile of the manifest) and their processes have ended, or when no agent runs. It pauses nothing itself: a pod
that is deleted without such a label ends with its grace period.`,
		Example: "  accelmux await-pause --run-dirs /run/accelmux/pods nvidia",
		Args:    arguments.AtLeast(1),
	}
	dir := cmd.Flags().String("run-dirs", filepath.Dir(defaultRunDir), "`dir`ectory that has the run directories of the node's agents")
	completeDirs(cmd, "run-dirs")
	cmd.RunE = func(cmd *cobra.Command, backends []string) error {
		fmt.Fprintf(cmd.ErrOrStderr(), "after SIGTERM this waits until no agent runs %s\n", strings.Join(backends, ", "))
		<-cmd.Context().Done()
		ctx := context.WithoutCancel(cmd.Context()) // kubelet's grace period is the limit
		again := time.NewTicker(askEvery)
		defer again.Stop()
		for before := ""; ; <-again.C {
			running := runningIn(ctx, *dir, backends)
			if len(running) == 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "no agent runs %s\n", strings.Join(backends, ", "))
				return nil
			}
			if now := strings.Join(running, "; "); now != before {
				fmt.Fprintf(cmd.ErrOrStderr(), "waiting: %s\n", now)
				before = now
			}
		}
	}
	return cmd
}

// runningIn returns which of the backends are not paused, by the agents whose run directories are in dir. The socket of an
// agent that was killed stays: nobody answers there.
func runningIn(ctx context.Context, dir string, backends []string) (running []string) {
	sockets, err := filepath.Glob(filepath.Join(dir, "*", status.SocketName))
	if err != nil {
		return []string{err.Error()}
	}
	for _, socket := range sockets {
		report, err := ask(ctx, filepath.Dir(socket))
		switch {
		case errors.Is(err, status.ErrNoAgent):
		case err != nil:
			running = append(running, err.Error())
		}
		for _, b := range report.Backends {
			if slices.Contains(backends, b.Name) && b.State != string(supervisor.Paused) {
				running = append(running, fmt.Sprintf("by %s backend %s is %s", socket, b.Name, b.State))
			}
		}
	}
	return running
}

func ask(ctx context.Context, runDir string) (status.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	return status.NewClient(runDir).Report(ctx)
}
