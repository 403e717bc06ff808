package status

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// MaxOverrideMessage is the limit of an override's message, in bytes.
const MaxOverrideMessage = 256

// EncodeOverride returns the contents of an override file: the first line is the end of the
// override, the second line its message.
func EncodeOverride(o protocol.Override) string {
	return o.Until.UTC().Format(time.RFC3339) + "\n" + o.Message + "\n"
}

// decodeOverride reads the contents of an override file, which people may write, too.
func decodeOverride(text string) (protocol.Override, error) {
	end, message, _ := strings.Cut(strings.TrimSpace(text), "\n")
	until, err := time.Parse(time.RFC3339, strings.TrimSpace(end))
	if err != nil {
		return protocol.Override{}, fmt.Errorf("its first line must be the time at which the override ends, like 2026-01-02T15:04:05Z, and is %.40q", end)
	}
	message = strings.Join(strings.Fields(message), " ")
	if len(message) > MaxOverrideMessage {
		return protocol.Override{}, fmt.Errorf("its message has %d bytes; at most %d", len(message), MaxOverrideMessage)
	}
	return protocol.Override{Until: until.UTC(), Message: message}, nil
}
