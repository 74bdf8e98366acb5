package kfd

import (
	"bytes"
	"fmt"

	"github.com/accelmux/accelmux/backends/sysfs"
)

// properties are the lines of a properties file: a name, a space, a decimal number.
type properties struct {
	values map[string]uint64
	err    error // the first, of number and need
}

// known are the names that are used, so that no string is made for each of a machine's 50,000
// lines. The other lines are not stored.
var known = func() map[string]string {
	names := map[string]string{}
	for _, name := range []string{
		"cpu_cores_count", "simd_count", "simd_per_cu", "num_xcc", "gfx_target_version", "vendor_id", "device_id",
		"location_id", "domain", "drm_render_minor", "hive_id", "unique_id", "max_engine_clk_ccompute",
		"heap_type", "size_in_bytes", "mem_clk_max",
		"type", "node_from", "node_to", "weight", "flags",
	} {
		names[name] = name
	}
	return names
}()

// parse reads a file that has at least the names needed. A file that ends within a
// line is refused: the rest of its last number could be another number.
func (p *properties) parse(text []byte, needed ...string) error {
	if len(text) > 0 && text[len(text)-1] != '\n' {
		return fmt.Errorf("it ends within a line")
	}
	for number := 1; len(text) > 0; number++ {
		end := bytes.IndexByte(text, '\n')
		line := text[:end]
		text = text[end+1:]
		key, value, ok := bytes.Cut(line, []byte{' '})
		if !ok || !isName(key) {
			return fmt.Errorf("line %d is %s, want a name and a number", number, sysfs.Quote(string(line)))
		}
		name, ok := known[string(key)]
		if !ok {
			continue
		}
		if _, twice := p.values[name]; twice {
			return fmt.Errorf("line %d has %s a second time", number, name)
		}
		n, err := decimal(value)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		p.values[name] = n
	}
	p.need(needed...)
	return p.err
}

// isName reports whether text is a C identifier in lower case.
func isName(text []byte) bool {
	for _, c := range text {
		if c != '_' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return len(text) > 0
}

// decimal reads the usual short numbers without making a string.
func decimal(text []byte) (uint64, error) {
	n := uint64(0)
	for _, c := range text {
		if c < '0' || c > '9' || len(text) > 18 {
			return sysfs.ParseUint(string(text))
		}
		n = n*10 + uint64(c-'0')
	}
	if len(text) == 0 {
		return sysfs.ParseUint("")
	}
	return n, nil
}

// need notes the first of the names that is missing.
func (p *properties) need(names ...string) {
	for _, name := range names {
		if _, ok := p.values[name]; !ok && p.err == nil {
			p.err = fmt.Errorf("it has no %s", name)
		}
	}
}

// number returns a value within a limit; 0 if it is missing.
func (p *properties) number(name string, limit uint64) uint32 {
	n := p.values[name]
	if n > limit && p.err == nil {
		p.err = fmt.Errorf("%s is %d, more than can be", name, n)
	}
	return uint32(n)
}
