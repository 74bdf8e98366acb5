package mps

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/statefile"
)

// claim sets the compute mode EXCLUSIVE_PROCESS on the GPUs of an exclusive plan, and DEFAULT
// on others that claim had changed for an earlier plan. So only the MPS server uses a GPU, and
// no process exceeds its limits. nvidia-smi needs root.
func (s *supervisor) claim(ctx context.Context, plan *Plan) error {
	if !plan.Exclusive {
		s.release(nil)
		return nil
	}
	uuids := plan.uuids()
	s.release(uuids)
	// The list is stored first, so that after a companion was killed here the next one resets
	// the modes.
	if err := s.storeClaimed(append(s.claimed(), uuids...)); err != nil {
		return err
	}
	for _, uuid := range uuids {
		if err := s.setMode(ctx, uuid, "EXCLUSIVE_PROCESS"); err != nil {
			return fmt.Errorf("%w; set mps.exclusive: false to leave the compute mode as it is", err)
		}
	}
	return nil
}

// release sets the compute mode DEFAULT on the GPUs that claim has changed, except some.
// A failure is retried at the next release.
func (s *supervisor) release(except []string) {
	claimed := s.claimed()
	left := slices.DeleteFunc(slices.Clone(claimed), func(uuid string) bool {
		if slices.Contains(except, uuid) {
			return false
		}
		err := s.setMode(context.Background(), uuid, "DEFAULT")
		if err != nil {
			s.log.Warn("a GPU stays in compute mode EXCLUSIVE_PROCESS", "device", uuid, "error", err)
		}
		return err == nil
	})
	if len(left) != len(claimed) {
		if err := s.storeClaimed(left); err != nil {
			s.log.Warn("the list of GPUs in compute mode EXCLUSIVE_PROCESS is outdated", "error", err)
		}
	}
}

// setMode sets the compute mode of a GPU, with the nvidia-smi beside the control program.
func (s *supervisor) setMode(ctx context.Context, uuid, mode string) error {
	path, err := s.place.find()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timing.Start)
	defer cancel()
	output := &tail{}
	command := s.place.run(ctx, filepath.Join(filepath.Dir(path), "nvidia-smi"), "-i", uuid, "-c", mode)
	command.Stdout, command.Stderr = output, output
	if err := command.Run(); err != nil {
		return fmt.Errorf("set the compute mode of %s to %s with nvidia-smi: %w: %s", uuid, mode, err, output)
	}
	return nil
}

func (s *supervisor) claimedFile() string {
	return filepath.Join(s.place.root, s.place.dir, "exclusive")
}

// claimed returns the UUIDs of the GPUs whose compute mode was changed.
func (s *supervisor) claimed() []string {
	text, err := statefile.Read(s.claimedFile())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("cannot read which GPUs are in compute mode EXCLUSIVE_PROCESS", "error", err)
	}
	return strings.Fields(string(text))
}

func (s *supervisor) storeClaimed(uuids []string) error {
	slices.Sort(uuids)
	text := strings.Join(slices.Compact(uuids), "\n")
	if err := statefile.Replace(s.claimedFile(), []byte(text), 0o600, false); err != nil {
		return fmt.Errorf("store which GPUs are in compute mode EXCLUSIVE_PROCESS: %w", err)
	}
	return nil
}
