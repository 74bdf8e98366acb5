package manager

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/accelmux/accelmux/backends/sdk"
)

// maxDepth bounds how many levels of nodes or directories are searched.
const maxDepth = 12

// node returns the path of a device in the device tree; empty for none. dirs are directories
// that may have its link.
func (r *reader) node(dirs ...string) string {
	base := filepath.Join(r.root, "firmware", "devicetree", "base")
	for _, dir := range dirs {
		to, err := os.Readlink(filepath.Join(dir, "of_node"))
		if err != nil {
			continue
		}
		if path := filepath.Join(dir, to); below(path, base) {
			return strings.TrimPrefix(path, base+"/")
		}
	}
	return ""
}

// cell returns a number in the device tree: four bytes, big-endian. A property may have more
// of them, of which the first counts. It is 0 if there is no such property.
func (r *reader) cell(node, property string) (uint32, error) {
	file := filepath.Join(r.root, "firmware", "devicetree", "base", node, property)
	b, err := r.file(file, page)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if len(b) < 4 || len(b)%4 != 0 {
		return 0, &fs.PathError{Op: "read", Path: file, Err: fmt.Errorf("it has %d bytes, want a number of four", len(b))}
	}
	return binary.BigEndian.Uint32(b), nil
}

// programmer returns the number by which a region's node, or one above it, names the manager
// (fpga-mgr in fpga-region.yaml of Linux's bindings); 0 if none does.
func (r *reader) programmer(node string) (uint32, error) {
	for range maxDepth {
		if node == "" || node == "." {
			break
		}
		n, err := r.cell(node, "fpga-mgr")
		if n != 0 || err != nil {
			return n, err
		}
		node = filepath.Dir(node)
	}
	return 0, nil
}

// overlay returns what the device tree has about an overlay that was loaded into a region: the
// name of the file (firmware-name in fpga-region.yaml of Linux's bindings). It is an attribute,
// and no ID: files of one name differ, and AMD's kernels can program the FPGA again without a
// trace in the tree. An FPGA that does not operate has none.
func (r *reader) overlay(f *found, p *part) map[string]*sdk.Attribute {
	all := map[string]*sdk.Attribute{}
	if p.node == "" || !f.card.Attributes["programmed"].GetBoolValue() {
		return all
	}
	name, err := r.line(r.root, "firmware", "devicetree", "base", p.node, "firmware-name")
	switch {
	case err == nil:
		all["firmwareName"] = sdk.String(name)
	case !errors.Is(err, fs.ErrNotExist):
		r.problem(p.name, false, err)
	}
	return all
}
