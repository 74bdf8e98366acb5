package text

import (
	"fmt"
	"regexp"
	"strings"
)

// OfDecoding returns the text of an error of decoding JSON or YAML without the names of decoders and Go's types.
func OfDecoding(err error) string {
	message := err.Error()
	if field := wrongType.FindStringSubmatch(message); field != nil {
		return fmt.Sprintf("the field %s has the wrong type: %s", field[2], field[1])
	}
	for _, words := range []string{"error unmarshaling JSON: while decoding JSON: ", "error converting YAML to JSON: ", "json: ", "yaml: "} {
		message = strings.TrimPrefix(message, words)
	}
	return message
}

// wrongType is what encoding/json says of a value of another type: the field's path follows the types that it is in.
var wrongType = regexp.MustCompile(`cannot unmarshal (\w+) into Go struct field \w+\.(?:[A-Z]\w*\.)*(\S+) of type`)
