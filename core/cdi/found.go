package cdi

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	cdi "tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/pkg/parser"
	specs "tags.cncf.io/container-device-interface/specs-go"
)

// foundSpec is what a spec file says.
type foundSpec struct {
	kind    string
	devices []foundDevice
}

// foundDevice has the canonical text of the whole of a device's edits.
type foundDevice struct{ name, text string }

// loadSpec reads a spec file of ours, and what its side file adds. The error is
// for the spec; a side file that can't be read costs what it says.
//
// The library takes every file for YAML, for which it needs some twenty times the file's
// size in memory. A file that is just what we would write needs no such reader: what is in
// it has been checked, and it could say nothing else. So the library reads only the others.
func loadSpec(path string) (*specFile, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxSpecSize {
		return nil, fmt.Errorf("not a regular file of at most %d bytes", maxSpecSize)
	}
	if found, err := readOwn(path); err == nil {
		if f, sideErr := found.file(path, info); f != nil && !f.stale {
			return f, sideErr
		}
	}
	found, err := readAny(path)
	if err != nil {
		return nil, err
	}
	return found.file(path, info)
}

// file is the file that says it; the error is loadSpec's.
func (s *foundSpec) file(path string, info fs.FileInfo) (*specFile, error) {
	k, ok := parseKind(s.kind)
	if !ok || k.specName() != filepath.Base(path) {
		return nil, errForeign
	}
	f := &specFile{kind: k, dir: filepath.Dir(path), defs: make(definitions, len(s.devices))}
	side, payload, sideErr := loadSide(f.sidePath(), k)
	f.side, f.sideKnown = payload, sideErr == nil || errors.Is(sideErr, fs.ErrNotExist)
	for _, d := range s.devices {
		f.defs[d.name] = side.find(k, d.name, d.text)
	}
	f.unsynced = true // the run before may have been stopped at just that
	// A name that only the side file has was never given out: the spec is second.
	f.written = stampFrom(info)
	// Anything that we would write otherwise is written at the next Publish; what a
	// runtime may not read counts as not there.
	f.stale = !f.matchesDisk()
	if info.Mode().Perm() != specMode {
		f.written = stamp{}
	}
	if errors.Is(sideErr, fs.ErrNotExist) {
		sideErr = nil
	}
	return f, sideErr
}

// readAny reads a spec as runtimes do.
func readAny(path string) (*foundSpec, error) {
	spec, err := cdi.ReadSpec(path, 0)
	if err != nil {
		return nil, err
	}
	found := &foundSpec{kind: spec.Kind}
	for i := range spec.Devices {
		device := &spec.Devices[i]
		text, err := encode(&device.ContainerEdits)
		if err != nil {
			return nil, err
		}
		found.devices = append(found.devices, foundDevice{device.Name, text})
	}
	return found, found.share(&spec.ContainerEdits)
}

// readOwn reads a spec as far as it is like those that we write, device by device. It
// checks the names and edits as the library does, but not whether the file says anything
// besides.
func readOwn(path string) (*foundSpec, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	dec := json.NewDecoder(file)
	if _, err := dec.Token(); err != nil { // the spec begins
		return nil, err
	}
	var (
		found  foundSpec
		common specs.ContainerEdits
	)
	for dec.More() {
		field, err := dec.Token()
		if err != nil {
			return nil, err
		}
		switch field {
		case "kind":
			err = dec.Decode(&found.kind)
		case "devices":
			err = found.readDevices(dec)
		case "containerEdits":
			err = dec.Decode(&common)
		default:
			err = dec.Decode(new(json.RawMessage))
		}
		if err != nil {
			return nil, err
		}
	}
	if len(found.devices) == 0 {
		return nil, errors.New("no devices")
	}
	return &found, found.share(&common)
}

// readDevices reads a list of devices.
func (s *foundSpec) readDevices(dec *json.Decoder) error {
	if _, err := dec.Token(); err != nil { // the list begins
		return err
	}
	for dec.More() {
		var device specs.Device
		if err := dec.Decode(&device); err != nil {
			return err
		}
		if err := errors.Join(parser.ValidateDeviceName(device.Name), checkEdits(&device.ContainerEdits)); err != nil {
			return err
		}
		text, err := encode(&device.ContainerEdits)
		if err != nil {
			return err
		}
		s.devices = append(s.devices, foundDevice{device.Name, text})
	}
	_, err := dec.Token() // the list ends
	return err
}

// share adds the spec's own edits to the edits of each device.
func (s *foundSpec) share(common *specs.ContainerEdits) error {
	if len(common.DeviceNodes)+len(common.AdditionalGIDs)+shareable(*common) == 0 {
		return nil
	}
	if err := checkEdits(common); err != nil {
		return err
	}
	for i := range s.devices {
		d := &s.devices[i]
		edits, err := decode(d.text)
		if err != nil {
			return err
		}
		if d.text, err = encode(compose(common, edits)); err != nil {
			return err
		}
	}
	return nil
}

// matchesDisk reports whether the spec is as we would write it.
func (f *specFile) matchesDisk() bool {
	file, err := os.Open(f.path())
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }()
	found := bufio.NewReader(file)
	if err := f.defs.write(expected{found}, f.kind); err != nil {
		return false
	}
	_, err = found.ReadByte()
	return errors.Is(err, io.EOF)
}

// expected fails unless what is written is what it reads.
type expected struct{ found io.Reader }

func (e expected) Write(data []byte) (int, error) {
	found := make([]byte, len(data))
	if _, err := io.ReadFull(e.found, found); err != nil {
		return 0, err
	}
	if !bytes.Equal(found, data) {
		return 0, errors.New("other content")
	}
	return len(data), nil
}
