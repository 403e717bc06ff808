package cluster

import (
	"fmt"
	"strings"
)

// tokenVariable begins the word of a printed command that contains the token.
const tokenVariable = "LOCKSTEP_TOKEN="

// JoinFlags returns the flags --join and --token of the command that `sidecar cluster token
// create` prints, which sets the token in its environment.
func JoinFlags(printed string) ([]string, error) {
	join, token := "", ""
	for word := range strings.FieldsSeq(printed) {
		if secret, found := strings.CutPrefix(word, tokenVariable); found {
			token = "--token=" + secret
		}
		if strings.HasPrefix(word, "--join=") {
			join = word
		}
	}
	if join == "" || token == "" {
		return nil, fmt.Errorf("token create printed %q: want a command with --join and %s", printed, tokenVariable)
	}
	return []string{join, token}, nil
}
