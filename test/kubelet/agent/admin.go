package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
)

// Status is what these tests read of `accelmux status -o json`.
type Status struct {
	Role     string   `json:"role"`
	NotReady []string `json:"notReady"`
	PID      int      `json:"pid"`
	Config   struct {
		Refused string `json:"refused"`
	} `json:"config"`
	Backends []struct {
		Name     string `json:"name"`
		State    string `json:"state"`
		PID      int    `json:"pid"`
		Restarts int    `json:"restarts"`
	} `json:"backends"`
	Resources []struct {
		Name    string `json:"name"`
		State   string `json:"state"`
		Units   int    `json:"units"`
		Healthy int    `json:"healthy"`

		Injection string `json:"injection"`
	} `json:"resources"`
	Problems []struct {
		Message string `json:"message"`
	} `json:"problems"`
}

// Device is what these tests read of `accelmux devices -o json`.
type Device struct {
	Backend  string `json:"backend"`
	ID       string `json:"id"`
	Resource string `json:"resource"`
	Healthy  bool   `json:"healthy"`
	Faults   []struct {
		Code     string `json:"code"`
		Recovery string `json:"recovery"`
	} `json:"faults"`
	PCIBusID string `json:"pciBusID"`
	CDI      string `json:"cdi"`
	Holders  []struct {
		Namespace string `json:"namespace"`
		Pod       string `json:"pod"`
		Container string `json:"container"`
		Unit      string `json:"unit"`
		Ending    bool   `json:"ending"`
	} `json:"holders"`
}

// Status asks the running agent.
func (a *Agent) Status(ctx context.Context) (Status, error) {
	var status Status
	return status, a.ask(ctx, "status", &status)
}

// Devices asks the running agent.
func (a *Agent) Devices(ctx context.Context) (map[string]Device, error) {
	var list []Device
	if err := a.ask(ctx, "devices", &list); err != nil {
		return nil, err
	}
	devices := make(map[string]Device, len(list))
	for _, d := range list {
		devices[d.ID] = d
	}
	return devices, nil
}

// ask runs a command of the CLI against the agent's admin socket.
func (a *Agent) ask(ctx context.Context, command string, into any) error {
	cmd := exec.CommandContext(ctx, filepath.Join(a.bin, "accelmux"), command, "-o", "json", "--run-dir", a.RunDir())
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return fmt.Errorf("accelmux %s: %w: %s", command, err, exit.Stderr)
		}
		return fmt.Errorf("accelmux %s: %w", command, err)
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("accelmux %s printed no JSON: %w", command, err)
	}
	return nil
}
