package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/status/listing"
)

// runDirs are the directories with the admin sockets of the agents: an emptyDir of
// each pod.
func runDirs() []string {
	dirs, err := filepath.Glob("/var/lib/kubelet/pods/*/volumes/kubernetes.io~empty-dir/run")
	if err != nil {
		return nil // not with this pattern
	}
	return dirs
}

// activeAgent finds the agent that serves the node.
func activeAgent(ctx context.Context) (*status.Client, status.Report, error) {
	var errs []error
	for _, dir := range runDirs() {
		ctx, cancel := context.WithTimeout(ctx, askLimit)
		agent := status.NewClient(dir)
		report, err := agent.Report(ctx)
		cancel()
		if err == nil && report.Role == status.RoleActive {
			return agent, report, nil
		}
		errs = append(errs, err)
	}
	return nil, status.Report{}, fmt.Errorf("no agent is active: %w", errors.Join(errs...))
}

// reports are those of all agents that answer.
func reports(ctx context.Context) []status.Report {
	var all []status.Report
	for _, dir := range runDirs() {
		ctx, cancel := context.WithTimeout(ctx, askLimit)
		report, err := status.NewClient(dir).Report(ctx)
		cancel()
		if err == nil {
			all = append(all, report)
		}
	}
	return all
}

// report is the active agent's status, once there is one.
func (n *node) report() status.Report {
	n.Helper()
	var report status.Report
	n.eventually("an agent is active", func() bool {
		var err error
		_, report, err = activeAgent(context.Background())
		return err == nil
	})
	return report
}

// wantReport waits until the active agent's status is as it should be; what names
// that.
func (n *node) wantReport(what string, condition func(status.Report) bool) {
	n.Helper()
	var last status.Report
	defer func() {
		if n.Failed() {
			n.Logf("the last report: %+v", last)
		}
	}()
	n.eventually(what, func() bool {
		var err error
		_, last, err = activeAgent(context.Background())
		return err == nil && condition(last)
	})
}

// devices are those that the active agent knows.
func devices(ctx context.Context) ([]listing.Device, error) {
	agent, _, err := activeAgent(ctx)
	if err != nil {
		return nil, err
	}
	return agent.Devices(ctx)
}
