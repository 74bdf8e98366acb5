package faults

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/accelmux/accelmux/test/bench/rig"
	"github.com/accelmux/accelmux/test/hostile"
)

// Memory is the section of what a backend can make the core take without breaking a bound.
var Memory = rig.Section{
	Name: "memory",
	About: "The core's peak memory (VmHWM) while a backend of 4,096 devices reports other values three times a second for 20 s, within\n" +
		"every bound of the contract. GOMEMLIMIT is 384 MiB, as the agent sets it in a container of 512 MiB, which is the limit.",
	Measure: peaks,
}

const (
	memoryLimit   = "GOMEMLIMIT=384MiB"
	containerSize = 537 // MB: the chart's limit for the agent's container
	memoryFor     = 20 * time.Second
)

func peaks(s *rig.Setup) (figures []rig.Figure, err error) {
	dir, err := os.MkdirTemp("", "m")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := install(s.Bin, dir); err != nil {
		return nil, err
	}
	for _, misdeed := range hostile.Bounds() {
		figure, err := peak(s, dir, misdeed)
		if err != nil {
			return nil, fmt.Errorf("a backend that %s: %w", misdeed.What, err)
		}
		figures = append(figures, figure)
	}
	return figures, nil
}

func peak(s *rig.Setup, dir string, misdeed hostile.Misdeed) (_ rig.Figure, err error) {
	file := filepath.Join(dir, "on")
	n, err := rig.Start(rig.NodeOptions{
		Bin: s.Bin, Config: fmt.Sprintf(config, "", misdeed.Name, file, "", "10s"), Want: map[string]int{resource: devices, bad: hostile.Devices},
		Args: []string{"--backend-dir", dir}, Env: []string{memoryLimit},
	})
	if err != nil {
		return rig.Figure{}, err
	}
	defer func() { err = errors.Join(err, os.Remove(file), n.Stop()) }()
	began := used(n.Agent)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return rig.Figure{}, err
	}
	length := memoryFor
	if s.Quick {
		length /= 4
	}
	listed, err := rig.Poll(rig.Patience, pollEvery, func() (bool, error) { return len(n.Units(bad)) > hostile.Devices, nil })
	if err != nil || !listed {
		return rig.Figure{}, errors.Join(fmt.Errorf("kubelet has none of its further devices within %v", rig.Patience), err)
	}
	<-time.After(length)
	memory, err := rig.PeakMemory(n.Agent)
	return rig.Figure{
		What: "peak, while a backend " + misdeed.What, Unit: "MB", Value: memory, Limit: containerSize,
		Note: fmt.Sprintf("the core took %.0f %% of a CPU", 100*(used(n.Agent)-began).Seconds()/length.Seconds()),
	}, err
}
