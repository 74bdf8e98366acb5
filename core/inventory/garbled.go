package inventory

import (
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxNesting is more than the contract has.
const maxNesting = 16

// GarbledField names the first field of an encoded message that holds text which is not
// valid UTF-8, such as "edits.device_nodes[1].path"; "" if there is none. Protobuf refuses
// such a message as a whole, and does not say for which field.
func GarbledField(wire []byte, of protoreflect.MessageDescriptor) string {
	return garbled(wire, of, maxNesting)
}

func garbled(wire []byte, of protoreflect.MessageDescriptor, levels int) string {
	seen := map[protowire.Number]int{}
	for len(wire) > 0 && levels > 0 {
		number, kind, n := protowire.ConsumeTag(wire)
		if n < 0 {
			return ""
		}
		wire = wire[n:]
		if n = protowire.ConsumeFieldValue(number, kind, wire); n < 0 {
			return ""
		}
		value := wire[:n]
		wire = wire[n:]
		field := of.Fields().ByNumber(number)
		if field == nil || kind != protowire.BytesType {
			continue
		}
		name := string(field.Name())
		if field.IsList() {
			name = fmt.Sprintf("%s[%d]", name, seen[number])
			seen[number]++
		}
		content, _ := protowire.ConsumeBytes(value)
		switch {
		case field.Kind() == protoreflect.StringKind && !utf8.Valid(content):
			return name
		case field.Kind() == protoreflect.MessageKind:
			if part := garbled(content, field.Message(), levels-1); part != "" {
				return name + "." + part
			}
		}
	}
	return ""
}
