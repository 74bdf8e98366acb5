package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/accelmux/accelmux/backends/fpga/bitstream"
	"github.com/accelmux/accelmux/backends/fpga/ioctl"
	"github.com/accelmux/accelmux/test/bench/rig"
	"github.com/accelmux/accelmux/test/fpgadevice"
	"github.com/accelmux/accelmux/test/fpgatree"
)

// config is that of the node, with the directory of bitstreams.
const config = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: bench
    backends:
      - name: fpga
        recovery: {delay: 0s, reset: never}
        settings: {mode: region, bitstreams: %q}
    resources:
      - name: fpga.intel.com/{regionName}
        parameters: {bitstream: {value: ` + file + `}}
`

// resource is that of all cards.
const resource = "fpga.intel.com/region-a5d72a3cc8b04939912cf715e5dc10ca"

// file is what containers ask for.
const file = "bench.gbs"

// pod asks for it.
const pod = "pod"

// functions are what the file has in turn.
var functions = []string{"d8424dc4a4a3c413f89e433683f9040b", "f7df405cbd7acf7222f144b0b93acd18"}

// programming is a node whose cards are programmed.
type programming struct {
	*rig.Node
	options
	tree   *fpgatree.Tree
	device *fpgadevice.Device
	// bitstreams has what containers may ask for, versions what the file is in turn.
	bitstreams string
	versions   []string
	// held is the engine of the card that the pod has, spare that of another.
	held, spare string
}

// measureProgramming says how long starts take that program a card, beyond what the card
// needs, and what memory that takes.
func measureProgramming(o options) (err error) {
	tree, remove, err := newMachine()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	device, err := fpgadevice.Start(tree)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, device.Close()) }()
	device.Needs(o.needs)
	p := &programming{options: o, tree: tree, device: device, bitstreams: filepath.Join(tree.Root, "bitstreams")}
	if err := p.write(); err != nil {
		return err
	}
	programs, err := p.wrap()
	if err != nil {
		return err
	}
	p.Node, err = rig.Start(rig.NodeOptions{
		Bin: programs, Dir: tree.Root, Config: fmt.Sprintf(config, p.bitstreams), Want: map[string]int{resource: cards},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	if err := p.choose(); err != nil {
		return err
	}
	for _, part := range []func() ([]rig.Figure, error){p.starts, p.memory} {
		figures, err := part()
		if err != nil {
			return err
		}
		rig.Show(figures)
	}
	return nil
}

// write writes what the file is in turn.
func (p *programming) write() error {
	if err := os.Mkdir(p.bitstreams, 0o755); err != nil {
		return err
	}
	for i, function := range functions {
		b := fpgadevice.Bitstream{
			Interface: p.tree.Machine().Cards[0].Interface, AFU: function, Payload: bytes.Repeat([]byte{byte(i + 1)}, p.size<<20),
		}
		p.device.Know(b)
		version := filepath.Join(p.tree.Root, function)
		if err := os.WriteFile(version, b.GBS(), 0o600); err != nil {
			return err
		}
		p.versions = append(p.versions, version)
	}
	return nil
}

// wrap is a directory of the programs, of which the backend meets the device.
func (p *programming) wrap() (string, error) {
	dir := filepath.Join(p.tree.Root, "bin")
	const backend = "accelmux-backend-fpga"
	return dir, errors.Join(os.Mkdir(dir, 0o755), os.Symlink(filepath.Join(p.bin, "accelmux"), filepath.Join(dir, "accelmux")),
		p.device.Program(filepath.Join(dir, backend), filepath.Join(p.bin, backend)))
}

// choose gives the pod a card, and finds another one.
func (p *programming) choose() error {
	id, err := p.Hold(pod)
	if err != nil {
		return err
	}
	for _, card := range p.tree.Machine().Cards {
		dir, err := p.tree.Find(card.Address, "fme")
		if err != nil {
			return err
		}
		node := filepath.Base(dir)
		if strings.Contains(id, strings.NewReplacer(":", "-", ".", "-").Replace(card.Address.String())) {
			p.held = node
		} else {
			p.spare = node
		}
	}
	if p.held == "" || p.spare == "" {
		return fmt.Errorf("no card has the device %s", id)
	}
	return nil
}

// replace has the file be another one.
func (p *programming) replace(round int) error {
	link, path := filepath.Join(p.bitstreams, ".next"), filepath.Join(p.bitstreams, file)
	return errors.Join(os.Link(p.versions[round%len(p.versions)], link), os.Rename(link, path))
}

// alone is how long the ioctl takes by itself, in a process that does nothing else: from
// the file's name until the card has it.
func (p *programming) alone() (time.Duration, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	//nolint:noctx // it ends when the card has it
	command := exec.Command(self, "-alone", filepath.Join(p.tree.Devfs(), p.spare), filepath.Join(p.bitstreams, file))
	command.Stderr = os.Stderr
	if err := p.device.Wrap(command); err != nil {
		return 0, err
	}
	said, err := command.Output()
	if err != nil {
		return 0, fmt.Errorf("the ioctl alone: %w", err)
	}
	return time.ParseDuration(strings.TrimSpace(string(said)))
}

// alone is that process.
func alone(args []string) (err error) {
	if len(args) != 2 {
		return errors.New("give a node and a file")
	}
	began := time.Now()
	f, err := bitstream.Open(args[1])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	payload, unmap, err := f.Map()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unmap()) }()
	node, err := ioctl.Open(args[0])
	if err != nil {
		return err
	}
	if err := errors.Join(ioctl.ProgramPort(node, ioctl.DFL, 0, payload), node.Close()); err != nil {
		return err
	}
	fmt.Println(time.Since(began))
	return nil
}

// starts are those that program a card, and those that find that it has the file. The
// ioctl of another card is the floor, taken in turn.
func (p *programming) starts() ([]rig.Figure, error) {
	var floors, all, beyond, again []time.Duration
	for round := range p.rounds {
		if err := p.replace(round); err != nil {
			return nil, err
		}
		floor, err := p.alone()
		if err != nil {
			return nil, err
		}
		took, err := p.StartPod(pod)
		if err != nil {
			return nil, err
		}
		same, err := p.StartPod(pod)
		if err != nil {
			return nil, err
		}
		floors, all, again, beyond = append(floors, floor), append(all, took), append(again, same), append(beyond, took-floor)
	}
	programmed := 0
	for _, call := range p.device.Calls(fpgadevice.Program) {
		if call.Node == p.held {
			programmed++
		}
	}
	switch {
	case p.rounds == 0:
		return nil, nil
	case programmed != p.rounds:
		return nil, fmt.Errorf("the card was programmed %d times, want %d", programmed, p.rounds)
	}
	return []rig.Figure{{
		What: "a start that programs, beyond the ioctl alone", Value: rig.Milliseconds(rig.Median(beyond)), Limit: 50, Unit: "ms",
		Floor: rig.Milliseconds(rig.Median(floors)), FloorIs: "the ioctl alone", Beyond: true,
		Note: fmt.Sprintf("%d starts with %d MiB, %.1f ms in all, slowest beyond %.1f ms; the card needs %v", p.rounds, p.size,
			rig.Milliseconds(rig.Median(all)), rig.Milliseconds(rig.Quantile(beyond, 1)), p.needs),
	}, {
		What: "a start with the file that is there already", Value: rig.Milliseconds(rig.Median(again)), Unit: "ms",
	}}, nil
}

// memory is that of the backend while a card is being programmed, and afterwards.
func (p *programming) memory() ([]rig.Figure, error) {
	if err := p.replace(p.rounds); err != nil {
		return nil, err
	}
	begun, hold, started := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	p.device.Next(fpgadevice.Answer{Node: p.held, Begun: begun, Hold: hold})
	go func() {
		_, err := p.StartPod(pod)
		started <- err
	}()
	select {
	case <-begun:
	case err := <-started:
		return nil, errors.Join(err, errors.New("the card was not programmed"))
	}
	backend := []rig.Process{{Name: "backend", PID: p.Backend, Memory: 20}}
	during, err := rig.Memory(backend, "while it programs", file)
	close(hold)
	if err := errors.Join(err, <-started); err != nil {
		return nil, err
	}
	after, err := rig.Memory(backend, "afterwards", file)
	return append(during, after...), err
}
