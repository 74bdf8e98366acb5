package telemetry

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Metrics are the content of a gpu_metrics table.
type Metrics struct {
	// Revision is the table's, such as "1.8"; empty if there was none.
	Revision string
	// Values are the whole card's.
	Values []Value
	// Partitions are the values of each partition of the card that is in use, by its
	// index; only revisions 1.6 to 1.8 have them. With 1.9 each partition has a file
	// of its own: see [DecodePartition].
	Partitions [][]Value
}

// ErrUnknownRevision means that the driver's table is newer than this package.
var ErrUnknownRevision = errors.New("a revision that is not known")

// Decode decodes the content of gpu_metrics. dataCentre: the card is one
// of those (CDNA) whose energy accumulator counts in 15.259 µJ in revisions 1.1 to
// 1.3 too, where the table has no unit; of others, energy is left out.
//
// Fields that the driver marks as not available (all bits set) are missing. Values
// that cannot be are left out and named in an error that comes with the others, as
// it does for a table that is cut off. A revision that is not known is
// ErrUnknownRevision with its number; one that is smaller than it should be has
// another layout, so nothing is taken from it.
func Decode(table []byte, dataCentre bool) (Metrics, error) {
	return decode("gpu_metrics", table, func(at revision) (layout, bool) {
		known, ok := layouts[at]
		if !ok {
			return known, false
		}
		if dataCentre && at.format == 1 && at.content >= 1 && at.content <= 3 {
			known.means = both(known.means, map[string]quantity{"energy_accumulator": joules})
		}
		if has(known.fields, "indep_throttle_status") {
			known.means = maps.Clone(known.means)
			delete(known.means, "throttle_status") // the same, without names
		}
		return known, true
	})
}

// DecodePartition decodes the content of xcp/xcp_metrics, the table of one partition
// of a card, as [Decode] does that of the card. Only Values are of use.
func DecodePartition(table []byte) (Metrics, error) {
	return decode("xcp_metrics", table, func(at revision) (layout, bool) {
		known, ok := partitionLayouts[at]
		return known, ok
	})
}

func decode(file string, table []byte, find func(revision) (layout, bool)) (Metrics, error) {
	if len(table) < headerSize {
		return Metrics{}, fmt.Errorf("%s has %d bytes, less than its header", file, len(table))
	}
	size := int(binary.NativeEndian.Uint16(table))
	at := revision{table[2], table[3]}
	name := fmt.Sprintf("%d.%d", at.format, at.content)
	known, ok := find(at)
	if !ok {
		return Metrics{}, fmt.Errorf("%s: %w: %s", file, ErrUnknownRevision, name)
	}
	if size < known.size {
		return Metrics{}, fmt.Errorf("%s of revision %s has %d bytes by its header, want %d", file, name, size, known.size)
	}
	m, d := Metrics{Revision: name}, decoder{table: table[:min(len(table), size)]}
	if known.fields == nil {
		m.Values = d.described(known.means)
	} else {
		if len(table) < known.size {
			d.fail("it is cut off after %d of %d bytes", len(table), known.size)
		}
		m.Values = d.values(known.fields, known.means, 0)
		m.Partitions = d.partitions(known.fields)
	}
	if len(d.wrong) > 0 {
		return m, fmt.Errorf("%s of revision %s: %w", file, name, errors.Join(d.wrong...))
	}
	return m, nil
}

func has(fields []field, name string) bool {
	return slices.ContainsFunc(fields, func(f field) bool { return f.name == name })
}

type decoder struct {
	table []byte
	wrong []error
}

// numbers returns the elements of a field that are available, by index.
func (d *decoder) numbers(f field, base int) map[int]uint64 {
	found := map[int]uint64{}
	for i := range f.count {
		from := base + f.offset + i*f.width
		if from+f.width > len(d.table) {
			break
		}
		var n, unavailable uint64
		switch b := d.table[from:]; f.width {
		case 1:
			n, unavailable = uint64(b[0]), 1<<8-1
		case 2:
			n, unavailable = uint64(binary.NativeEndian.Uint16(b)), 1<<16-1
		case 4:
			n, unavailable = uint64(binary.NativeEndian.Uint32(b)), 1<<32-1
		default:
			n, unavailable = binary.NativeEndian.Uint64(b), 1<<64-1
		}
		if n != unavailable {
			found[i] = n
		}
	}
	return found
}

// values returns the values of the fields that mean something, in their order.
func (d *decoder) values(fields []field, means map[string]quantity, base int) []Value {
	var all []Value
	for _, f := range fields {
		q, ok := means[f.name]
		if !ok || f.table != nil {
			continue
		}
		all = d.measure(all, f.name, q, d.numbers(f, base))
	}
	return all
}

// measure appends what the elements of a field that were found mean.
func (d *decoder) measure(all []Value, field string, q quantity, found map[int]uint64) []Value {
	switch {
	case q.name == "throttled":
		if bits, ok := found[0]; ok {
			all = append(all, slowed(q, bits)...)
		}
		return all
	case q.each:
		for _, i := range slices.Sorted(maps.Keys(found)) {
			of := q
			of.value = q.value + "-" + strconv.Itoa(i)
			all = d.append(all, field, of, found[i])
		}
		return all
	}
	return d.mean(all, field, q, found)
}

// mean appends the mean of those instances whose value can be.
func (d *decoder) mean(all []Value, field string, q quantity, found map[int]uint64) []Value {
	var values []Value
	for _, i := range slices.Sorted(maps.Keys(found)) {
		values = d.append(values, field, q, found[i])
	}
	if len(values) == 0 {
		return all
	}
	sum := 0.0
	for _, v := range values {
		sum += v.Value
	}
	values[0].Value = sum / float64(len(values))
	return append(all, values[0])
}

func (d *decoder) append(all []Value, field string, q quantity, raw uint64) []Value {
	v := Value{Name: q.name, Counter: q.counter, Value: q.base(float64(raw)), Label: q.label, LabelValue: q.value}
	if q.most > 0 && v.Value > q.most {
		d.fail("%s is %d, which cannot be", field, raw)
		return all
	}
	return append(all, v)
}

// slowed returns reasons for slowing down: all that have a name, with 1 or 0; without
// names, the reason "any".
func slowed(q quantity, bits uint64) []Value {
	value := func(reason string, on bool) Value {
		v := Value{Name: q.name, Label: q.label, LabelValue: reason}
		if on {
			v.Value = 1
		}
		return v
	}
	if q.reasons == nil {
		return []Value{value("any", bits != 0)}
	}
	var all []Value
	for _, bit := range slices.Sorted(maps.Keys(q.reasons)) {
		all = append(all, value(q.reasons[bit], bits&(1<<bit) != 0))
	}
	return all
}

// partitions returns the values of the partitions that are in use.
func (d *decoder) partitions(fields []field) [][]Value {
	var all [][]Value
	for _, f := range fields {
		if f.table == nil {
			continue
		}
		number := fields[slices.IndexFunc(fields, func(f field) bool { return f.name == "num_partition" })]
		inUse, ok := d.numbers(number, 0)[0]
		if !ok {
			return nil
		}
		if inUse > uint64(f.count) {
			d.fail("num_partition is %d, which cannot be", inUse)
			return nil
		}
		for i := range int(inUse) {
			all = append(all, d.values(f.table, partitionMeans, f.offset+i*f.width))
		}
	}
	return all
}
