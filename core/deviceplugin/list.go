package deviceplugin

import (
	"bytes"
	"slices"

	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	// maxList is how many bytes a list may have on the wire. Kubelet receives with
	// gRPC's default limit, 4 MiB; a list over it breaks the stream.
	maxList = 4<<20 - 4<<10
	// blockUnits is how many units are encoded together: a list of 50,000 has 98 blocks,
	// and one unit that changes has 13 kB of its 1.2 MB encoded anew.
	blockUnits = 512
	// listDevices is the number of the field ListAndWatchResponse.devices.
	listDevices = 1
)

// list is a ListAndWatchResponse, encoded: kubelet gets all of it with every change,
// and most of it is what it was. It never changes, and shares blocks with lists before
// it.
type list struct {
	// units are those advertised, sorted by ID.
	units []*unit
	// blocks are their encodings, blockUnits in each but the last.
	blocks [][]byte
	// size is how many bytes the blocks have.
	size int
}

// newList encodes the units, which are sorted by ID, as far as kubelet takes them: the
// list has the first of them.
func newList(units []*unit) list {
	l := list{}
	var block []byte
	for i, u := range units {
		before := len(block)
		if block = appendUnit(block, u); l.size+len(block)-before > maxList {
			block, units = block[:before], units[:i]
			break
		}
		l.size += len(block) - before
		if (i+1)%blockUnits == 0 {
			l.blocks, block = append(l.blocks, bytes.Clone(block)), block[:0]
		}
	}
	if len(block) > 0 {
		l.blocks = append(l.blocks, bytes.Clone(block))
	}
	l.units = units
	return l
}

// with is the list with other units of the same IDs in some places.
func (l list) with(changed map[int32]*unit) list {
	next := list{units: slices.Clone(l.units), blocks: slices.Clone(l.blocks), size: l.size}
	dirty := map[int]struct{}{}
	for place, u := range changed {
		if next.units[place].healthy != u.healthy {
			dirty[int(place)/blockUnits] = struct{}{}
		}
		next.units[place] = u
	}
	for i := range dirty {
		var block []byte
		for _, u := range next.units[i*blockUnits : min((i+1)*blockUnits, len(next.units))] {
			block = appendUnit(block, u)
		}
		next.size += len(block) - len(next.blocks[i])
		next.blocks[i] = block
	}
	return next
}

// appendUnit appends an entry of the list. What cannot be encoded would be left out;
// IDs are checked where they come in.
func appendUnit(to []byte, u *unit) []byte {
	d := wireDevice(u)
	before := len(to)
	to = protowire.AppendTag(to, listDevices, protowire.BytesType)
	to = protowire.AppendVarint(to, uint64(proto.Size(d))) //nolint:gosec // a size
	to, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(to, d)
	if err != nil {
		return to[:before]
	}
	return to
}

func wireDevice(u *unit) *pluginapi.Device {
	d := &pluginapi.Device{ID: u.ID, Health: pluginapi.Unhealthy}
	if u.healthy {
		d.Health = pluginapi.Healthy
	}
	// No topology at all if it is unknown: kubelet takes an empty one as a hint.
	if len(u.Device.NUMANodes) > 0 {
		d.Topology = &pluginapi.TopologyInfo{}
		for _, node := range u.Device.NUMANodes {
			d.Topology.Nodes = append(d.Topology.Nodes, &pluginapi.NUMANode{ID: int64(node)})
		}
	}
	return d
}

// same tells whether kubelet would see no difference.
func (l list) same(other list) bool { return slices.EqualFunc(l.blocks, other.blocks, bytes.Equal) }

// takesAway tells whether a healthy unit of the list is not healthy in the next one.
func (l list) takesAway(next list) bool {
	i := 0
	for at, old := range l.units {
		if at < len(next.units) && next.units[at] == old {
			continue
		}
		for i < len(next.units) && next.units[i].ID < old.ID {
			i++
		}
		if !old.healthy {
			continue
		}
		if i == len(next.units) || next.units[i].ID != old.ID || !next.units[i].healthy {
			return true
		}
	}
	return false
}

// listCodec is gRPC's codec for protobuf, which also takes a list.
type listCodec struct{ encoding.CodecV2 }

func newListCodec() listCodec { return listCodec{encoding.GetCodecV2(grpcproto.Name)} }

// Marshal encodes a message. The blocks of a list are sent from where they are.
func (c listCodec) Marshal(message any) (mem.BufferSlice, error) {
	l, ok := message.(list)
	if !ok {
		return c.CodecV2.Marshal(message)
	}
	buffers := make(mem.BufferSlice, len(l.blocks))
	for i, block := range l.blocks {
		buffers[i] = mem.SliceBuffer(block)
	}
	return buffers, nil
}
