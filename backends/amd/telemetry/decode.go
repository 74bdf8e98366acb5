package telemetry

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Metrics are what a gpu_metrics table says.
type Metrics struct {
	// Revision is the table's, such as "1.8"; empty if there was none.
	Revision string
	// Values are the whole card's.
	Values []Value
	// Partitions are the values of each partition of the card that is in use, by its
	// index; only revisions 1.6 and later have them.
	Partitions [][]Value
}

// ErrUnknownRevision means that the driver's table is newer than this package.
var ErrUnknownRevision = errors.New("revision of gpu_metrics that is not known")

// Decode decodes the content of gpu_metrics. dataCentre says that the card is one
// of those (CDNA) whose energy accumulator counts in 15.259 µJ in revisions 1.1 to
// 1.3 too, where the table does not say; of others, energy is left out.
//
// Fields that the driver marks as not available (all bits set) are missing. Values
// that cannot be are left out and named in an error that comes with the others, as
// it does for a table that is cut off. A revision that is not known is
// ErrUnknownRevision with its number; one that is smaller than it should be has
// another layout, so nothing is taken from it.
func Decode(table []byte, dataCentre bool) (Metrics, error) {
	if len(table) < headerSize {
		return Metrics{}, fmt.Errorf("gpu_metrics has %d bytes, less than its header", len(table))
	}
	size := int(binary.NativeEndian.Uint16(table))
	at := revision{table[2], table[3]}
	name := fmt.Sprintf("%d.%d", at.format, at.content)
	known, ok := layouts[at]
	if !ok {
		return Metrics{}, fmt.Errorf("%w: %s", ErrUnknownRevision, name)
	}
	if size < known.size {
		return Metrics{}, fmt.Errorf("gpu_metrics of revision %s says that it has %d bytes, which should be %d", name, size, known.size)
	}
	d := decoder{table: table[:min(len(table), size)]}
	if len(table) < known.size {
		d.wrong = append(d.wrong, fmt.Errorf("it is cut off after %d of %d bytes", len(table), known.size))
	}
	means := known.means
	if dataCentre && at.format == 1 && at.content >= 1 && at.content <= 3 {
		means = both(means, map[string]quantity{"energy_accumulator": joules})
	}
	if has(known.fields, "indep_throttle_status") {
		means = maps.Clone(means)
		delete(means, "throttle_status") // the same, without names
	}
	m := Metrics{Revision: name, Values: d.values(known.fields, means, 0)}
	m.Partitions = d.partitions(known.fields)
	if len(d.wrong) > 0 {
		return m, fmt.Errorf("gpu_metrics of revision %s: %w", name, errors.Join(d.wrong...))
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

// numbers are the elements of a field that are available, by index.
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

// values are the values of the fields that mean something, in their order.
func (d *decoder) values(fields []field, means map[string]quantity, base int) []Value {
	var all []Value
	for _, f := range fields {
		q, ok := means[f.name]
		if !ok || f.table != nil {
			continue
		}
		found := d.numbers(f, base)
		switch {
		case q.name == "throttled":
			if bits, ok := found[0]; ok {
				all = append(all, slowed(q, bits)...)
			}
		case q.each:
			for _, i := range slices.Sorted(maps.Keys(found)) {
				of := q
				of.value = q.value + "-" + strconv.Itoa(i)
				all = d.append(all, f.name, of, found[i])
			}
		default:
			all = d.mean(all, f.name, q, found)
		}
	}
	return all
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
		d.wrong = append(d.wrong, fmt.Errorf("%s is %d, which cannot be", field, raw))
		return all
	}
	return append(all, v)
}

// slowed are reasons for slowing down: all that have a name, with 1 or 0; without
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

// partitions are the values of the partitions that are in use.
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
			d.wrong = append(d.wrong, fmt.Errorf("num_partition is %d, which cannot be", inUse))
			return nil
		}
		for i := range int(inUse) {
			all = append(all, d.values(f.table, partitionMeans, f.offset+i*f.width))
		}
	}
	return all
}
