package hostile

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Stained returns encoded messages of a type, each with another one of its texts, by the text's path. The content may be no
// UTF-8. Fields are found in the contract itself, so new ones are among them.
func Stained(of protoreflect.MessageDescriptor, content string) map[string][]byte {
	all := map[string][]byte{}
	fields := of.Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		tag := protowire.AppendTag(nil, f.Number(), protowire.BytesType)
		switch f.Kind() {
		case protoreflect.StringKind:
			all[string(f.Name())] = protowire.AppendString(tag, content)
		case protoreflect.MessageKind:
			for path, wire := range Stained(f.Message(), content) {
				all[string(f.Name())+"."+path] = protowire.AppendBytes(slices.Clone(tag), wire)
			}
		}
	}
	return all
}

// EachText calls visit with every text in a message that is not empty, and the field that has it. The texts of a map are
// fields of its entry.
func EachText(m protoreflect.Message, visit func(protoreflect.FieldDescriptor, string)) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		one := func(f protoreflect.FieldDescriptor, v protoreflect.Value) {
			switch {
			case f.Kind() == protoreflect.StringKind && v.String() != "":
				visit(f, v.String())
			case f.Kind() == protoreflect.MessageKind:
				EachText(v.Message(), visit)
			}
		}
		switch {
		case f.IsMap():
			v.Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
				one(f.MapKey(), key.Value())
				one(f.MapValue(), value)
				return true
			})
		case f.IsList():
			for i := range v.List().Len() {
				one(f, v.List().Get(i))
			}
		default:
			one(f, v)
		}
		return true
	})
}

// Stain is in each text of a backend that stains: colors, line breaks, a change of direction, what is no UTF-8, and much of it.
var Stain = "STAIN\x1b[31m\n\r\x00\u202e\u2028\u200b\x9b\xff" + strings.Repeat("z", 100<<10)

// Stains are misdeeds with stains in every text that a backend can send.
func Stains() []Misdeed {
	return []Misdeed{
		{
			Name: "stained-inventory", Group: Lies, What: "has stains in every text of its inventory and log",
			running: func() { stainLog() },
			lie: func(i *backendv1.Inventory) {
				raw := slices.Clone(i.ProtoReflect().GetUnknown())
				for n, text := range sorted(Stained(i.ProtoReflect().Descriptor(), Stain)) {
					path, wire := text.path, text.wire
					if path, inDevice := strings.CutPrefix(path, "devices."); inDevice {
						d := device(fmt.Sprintf("hostile-%d", Devices+n))
						if path == "health.message" { // that of a fault is in Events and in pod.status
							d.Health = &backendv1.Health{State: backendv1.HealthState_HEALTH_STATE_UNHEALTHY, Code: "hot", Recovery: backendv1.Recovery_RECOVERY_SELF}
						}
						sound, _ := proto.Marshal(d) // of valid texts
						stained := Stained((*backendv1.Device)(nil).ProtoReflect().Descriptor(), Stain)[path]
						wire = protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), append(sound, stained...))
					}
					raw = append(raw, wire...)
				}
				i.ProtoReflect().SetUnknown(raw)
			},
		},
		{
			Name: "stained-settings", Group: Lies, What: "has stains in its refusal of settings", Call: "Configure",
			reply: replies(func(r *backendv1.ConfigureResponse) { stainEach(r, 0) }),
		},
		{
			Name: "stained-answers", Group: Lies, What: "has stains in what its calls return",
			reply: func(request, answer any, err error) (any, error) {
				switch r := request.(type) {
				case *backendv1.PrepareRequest:
					turn := int(stainTurn.Add(1))
					for _, d := range r.GetDevices() {
						edits := &backendv1.ContainerEdits{}
						stainEach(edits, turn)
						answer.(*backendv1.PrepareResponse).Edits = map[string]*backendv1.ContainerEdits{d.GetId(): edits}
					}
				case *backendv1.ReleaseRequest:
					for _, result := range answer.(*backendv1.ReleaseResponse).GetResults() {
						result.Released = false
						stain(result, "message")
					}
				}
				return answer, err
			},
			sample: func(stream sampleStream) error {
				answer := samples()
				stainEach(answer, -1)
				return errors.Join(stream.Send(answer), wait(stream.Context()))
			},
		},
		{
			Name: "stained-resets", Group: Lies, What: "has stains in its results of Reset", Call: "Reset",
			reply: replies(func(r *backendv1.ResetResponse) {
				for _, result := range r.GetResults() {
					result.Recovered = false
					stain(result, "message")
				}
			}),
		},
		{
			Name: "stained-statuses", Group: Lies, What: "has stains in the statuses of its calls", Call: "Reset",
			reply: func(request, answer any, err error) (any, error) {
				if _, configures := request.(*backendv1.ConfigureRequest); configures {
					return answer, err
				}
				return nil, status.Error(codes.Internal, Stain)
			},
			sample: func(sampleStream) error { return status.Error(codes.Internal, Stain) },
		},
		{
			Name: "stained-end", Group: Lies, What: "ends Watch with a stained status",
			watch: func(*backend, watchStream) error { return status.Error(codes.Internal, Stain) },
		},
		{
			Name: "stained-certificate", Group: Lies, What: "has stains in its certificate",
			serve: func(b *backend, o []grpc.ServerOption) {
				if on() {
					// Names are ASCII; crypto/x509 accepts control characters in them, and has them in its error.
					serverName = "STAIN\x1b[31m\n\r\x00" + strings.Repeat("z", 2<<10) // go-plugin reads 16 KiB of the handshake
				}
				serveWith(b, o, false, true, credentials.NewTLS)
			},
		},
		{
			Name: "stained-output", Group: Lies, What: "has stains in what it prints before the handshake",
			start: func() {
				_, _ = rawStdout.WriteString(strings.ReplaceAll(Stain, "\n", "") + "\n")
				hang()
			},
		},
	}
}

// stainTurn has each Prepare stain another text.
var stainTurn atomic.Int64

type stained struct {
	path string
	wire []byte
}

func sorted(texts map[string][]byte) (all []stained) {
	for _, path := range slices.Sorted(maps.Keys(texts)) {
		all = append(all, stained{path, texts[path]})
	}
	return all
}

// stainEach adds the text of that number, counted around, or all.
func stainEach(m proto.Message, number int) {
	var raw []byte
	texts := sorted(Stained(m.ProtoReflect().Descriptor(), Stain))
	for i, text := range texts {
		if number < 0 || i == number%len(texts) {
			raw = append(raw, text.wire...)
		}
	}
	// As an unknown field: Go's own encoder refuses to write a text that is no UTF-8.
	m.ProtoReflect().SetUnknown(raw)
}

// stain adds one text.
func stain(m proto.Message, path string) {
	m.ProtoReflect().SetUnknown(Stained(m.ProtoReflect().Descriptor(), Stain)[path])
}

// stainLog logs lines with stains in all their parts.
func stainLog() {
	part, err := json.Marshal(strings.ToValidUTF8(Stain[:100], ""))
	if err != nil {
		return
	}
	for _, line := range []string{
		Stain,
		fmt.Sprintf(`{"@level":"error","@message":%s,"@module":%[1]s,"@timestamp":%[1]s,%[1]s:%[1]s,"msg":%[1]s,"time":%[1]s,"level":%[1]s,"backend":%[1]s,"":%[1]s,"list":[%[1]s]}`, part),
		fmt.Sprintf(`{"@level":%s,"@message":"STAIN level"}`, part),
	} {
		_, _ = rawStderr.WriteString(strings.ReplaceAll(line, "\n", "") + "\n")
	}
}
