package amd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/accelmux/accelmux/backends/amd/exporter"
	"github.com/accelmux/accelmux/backends/amd/kfd"
	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/pci"
)

// checks returns what is done at an interval: KFD's generation is read, since not all kernels send
// uevents when partitions are switched, and AMD's device metrics exporter, and the errors that
// resets have cured are stored.
func (s *source) checks() []engine.Check {
	all := []engine.Check{{
		What: "reading KFD's generation_id", Hung: "the driver hangs; see the kernel log", Every: s.cfg.poll, Run: s.poll,
	}, {
		What: "storing the errors that resets have cured in " + s.cfg.cured.file, Hung: "its file system hangs", Every: s.cfg.poll, Run: s.cfg.cured.save,
	}}
	if socket := s.cfg.health.Exporter; socket != "" {
		all = append(all, engine.Check{
			What: "reading AMD's device metrics exporter", Hung: "its socket hangs", Every: s.cfg.interval,
			Run: func(ctx context.Context) error { return s.readExporter(ctx, s.backend.seams.exporter(socket)) },
		})
	}
	return all
}

// poll asks for a scan if KFD counted a change since the last one.
func (s *source) poll(ctx context.Context) error {
	last := s.generation.Load()
	if last == nil {
		return nil // the first scan is in progress
	}
	generation, err := kfd.Generation(s.cfg.host.Sysfs)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // 0, as at the last scan if there was no KFD either
	}
	if err == nil && generation == *last {
		return nil
	}
	_ = s.backend.Do(ctx, engine.Known.Scan) // an error means that the loop has ended
	return nil
}

// readExporter takes over what the exporter reports of the GPUs. It reports all GPUs of a node as
// unhealthy while it cannot reach its own agent: of several GPUs that means nothing.
func (s *source) readExporter(ctx context.Context, from lister) error {
	gpus, err := from.List(ctx)
	bad, others := map[pci.Address]string{}, 0
	for _, g := range gpus {
		if g.State == exporter.Unhealthy && g.HasPCI {
			bad[g.PCI] = g.Text
		} else {
			others++
		}
	}
	if err != nil || others == 0 && len(bad) > 1 {
		bad = nil
	}
	_ = s.backend.Do(ctx, func(known engine.Known) { // an error means that the loop has ended
		for _, u := range known.Units() {
			memoryOf(u).exporter = bad[u.Unit.PCI.Address]
		}
	})
	if err != nil {
		return fmt.Errorf("what AMD's device metrics exporter reports of the GPUs is not known; this does not affect their health: %w", err)
	}
	return nil
}
