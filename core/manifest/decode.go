package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/accelmux/accelmux/core/config"
)

const (
	// maxFile bounds a manifest, a schema and a preset, in bytes, and maxPresets the number of presets.
	maxFile    = 256 << 10
	maxPresets = 256
)

// Check decides whether a file may be used, by what its open descriptor is: who owns it, and who can write it.
type Check func(path string, info fs.FileInfo) error

// Load reads and checks a manifest: manifest.yaml in a source tree, or an installed one. The error is a [config.Errors]
// if the manifest is wrong, and wraps the system's error if a file cannot be read. The checks are made for the manifest
// and each file that belongs to it.
func Load(file string, checks ...Check) (*Manifest, error) {
	if m := again(file, checks); m != nil {
		return m, nil
	}
	l := &loader{file: file, checks: checks}
	data, err := l.read(file, "")
	if err != nil {
		return nil, err
	}
	var doc document
	positions, err := config.DecodeFile(file, "apiVersion: "+APIVersion+" and kind: "+Kind, data, &doc)
	if err != nil {
		return nil, err
	}
	c := &checker{file: file, positions: positions}
	m := &Manifest{
		Protocols: doc.Protocols, Hardware: doc.Hardware, InUse: InUse(doc.InUse), PausedWhile: doc.PausedWhile,
		Process: doc.Process, Containers: doc.Containers, attributes: doc.Attributes, classes: doc.Classes, labels: doc.Labels, look: doc.Look,
	}
	settings, err := l.schema(doc.Settings)
	if err != nil {
		c.fail("settings", "%s", err)
	}
	parameters, err := l.schema(doc.Parameters)
	if err != nil {
		c.fail("parameters", "%s", err)
	}
	if m.Presets, err = l.presets(doc.Presets); err != nil {
		c.fail("presets", "%s", err)
	}
	m.Description.SettingsSchema, m.Description.ParametersSchema = settings, parameters
	c.manifest(m, &doc)
	if len(c.errs) > 0 {
		return nil, c.errs
	}
	m.Sum = "sha256:" + hex.EncodeToString(l.sum())
	latest.put(file, loaded{m, l})
	return m, nil
}

// loader reads a manifest and the files beside it.
type loader struct {
	file    string
	checks  []Check
	content []part
	// dir is the directory of the presets, "" if they are in none, and presetFiles the number of its files.
	dir         string
	presetFiles int
}

// part is a file with its name in the manifest, "" for the manifest itself, and the checksum of its content.
type part struct {
	file, name string
	sum        [sha256.Size]byte
}

// read reads a file from an open descriptor.
func (l *loader) read(file, name string) ([]byte, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO would wait for a writer
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", file)
	}
	for _, check := range l.checks {
		if err := check(file, info); err != nil {
			return nil, err
		}
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s is bigger than %d bytes", file, maxFile)
	}
	l.content = append(l.content, part{file, name, sha256.Sum256(data)})
	return data, nil
}

// sum returns a checksum of all that was read: of each file's name and content for itself.
func (l *loader) sum() []byte {
	h := sha256.New()
	for _, p := range l.content {
		name := sha256.Sum256([]byte(p.name))
		h.Write(name[:])
		h.Write(p.sum[:])
	}
	return h.Sum(nil)
}

// beside returns the path of a file that belongs to the manifest: NAME beside manifest.yaml, PROGRAM.NAME beside
// PROGRAM.yaml.
func (l *loader) beside(name string) (string, error) {
	if name != filepath.Base(name) || strings.HasPrefix(name, ".") || name == string(filepath.Separator) {
		return "", fmt.Errorf("%q must be the plain name of a file beside the manifest", name)
	}
	dir, base := filepath.Split(l.file)
	if base != "manifest.yaml" {
		name = strings.TrimSuffix(base, ".yaml") + "." + name
	}
	return filepath.Join(dir, name), nil
}

// named returns what a mapping such as {file: NAME} names, "" if it is not one.
func named(inline config.Settings, field string) string {
	var fields map[string]any
	if json.Unmarshal(inline, &fields) != nil || len(fields) != 1 {
		return ""
	}
	name, _ := fields[field].(string)
	return name
}

// schema returns a schema that is inline or in a file, as JSON; "" if there is none.
func (l *loader) schema(inline config.Settings) (string, error) {
	name := named(inline, "file")
	if name == "" {
		return string(inline), nil
	}
	file, err := l.beside(name)
	if err != nil {
		return "", err
	}
	data, err := l.read(file, name)
	if err == nil && !json.Valid(data) {
		err = fmt.Errorf("%s is not JSON", file)
	}
	return string(data), err
}

// presets returns the presets, inline, in one file, or in a directory of files.
func (l *loader) presets(inline config.Settings) (map[string]config.Settings, error) {
	if name := named(inline, "file"); name != "" {
		file, err := l.beside(name)
		if err != nil {
			return nil, err
		}
		if inline, err = l.mapping(file, name); err != nil {
			return nil, err
		}
	}
	all := map[string]config.Settings{}
	name := named(inline, "dir")
	if name == "" {
		if inline == nil {
			return nil, nil
		}
		var kinds map[string]json.RawMessage // Settings would be decoded as base64
		if err := json.Unmarshal(inline, &kinds); err != nil {
			return nil, errors.New("must be a mapping of names to kinds")
		}
		for name, kind := range kinds {
			all[name] = config.Settings(kind)
		}
		return all, nil
	}
	dir, err := l.beside(name)
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(presetsIn(dir))
	if err != nil || len(files) == 0 || len(files) > maxPresets {
		return nil, fmt.Errorf("%s has %d presets (*.yaml); 1 to %d are possible", dir, len(files), maxPresets)
	}
	l.dir, l.presetFiles = dir, len(files)
	for _, file := range files {
		preset, err := l.mapping(file, name+"/"+filepath.Base(file))
		if err != nil {
			return nil, err
		}
		all[strings.TrimSuffix(filepath.Base(file), ".yaml")] = preset
	}
	return all, nil
}

// presetsIn is the pattern of the presets in a directory.
func presetsIn(dir string) string { return filepath.Join(escape(dir), "*.yaml") }

func (l *loader) mapping(file, name string) (s config.Settings, err error) {
	data, err := l.read(file, name)
	if err != nil {
		return nil, err
	}
	_, err = config.DecodeFile(file, "a mapping", data, &s)
	return s, err
}
