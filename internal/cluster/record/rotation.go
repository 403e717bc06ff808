package record

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/membership"
)

// Rotation is the replacement of the cluster's CA (docs/protocol-membership.md#rotation). The last one
// that ended stays, for people.
type Rotation struct {
	Phase   membership.RotationPhase // NoRotation: it ended
	Started time.Time
	Since   time.Time // when Phase began
	// Certificate is the new CA's certificate (PEM), and Hash the hash of its public key.
	Certificate string
	Hash        pki.Hash
	Turn        protocol.NodeID
	Given       []protocol.NodeID
	// Lost are the nodes that were removed after they may have got the key of a CA that is used.
	Lost []protocol.NodeID

	Revision int64 // of the key; 0: there is none. Not in the value
}

// Active reports whether a CA is being replaced.
func (r Rotation) Active() bool { return r.Phase != membership.NoRotation }

// RotationReport is the report of a node about itself.
type RotationReport struct {
	Node protocol.NodeID // in the key, not in the value
	CA   pki.Hash        // the new CA that it is about
	Key  pki.Hash        // of the node's public key

	TrustsNew, TrustsOld, HasKey, UsesNew bool
}

// Phases are the texts of the phases, in /status too.
var phases = []string{"Ended", "Requested", "Trusting", "Issuing", "Dropping"}

// PhaseText is the text of a phase.
func PhaseText(p membership.RotationPhase) string { return phases[p] }

// rotationJSON is the value of keyspace's Rotation.
type rotationJSON struct {
	Phase       string            `json:"phase"`
	Started     time.Time         `json:"started"`
	Since       time.Time         `json:"since"`
	Certificate string            `json:"certificate,omitempty"`
	Hash        string            `json:"hash,omitempty"`
	Turn        protocol.NodeID   `json:"turn,omitempty"`
	Given       []protocol.NodeID `json:"given,omitempty"`
	Lost        []protocol.NodeID `json:"lost,omitempty"`
}

type rotationReportJSON struct {
	CA        string `json:"ca"`
	Key       string `json:"key"`
	TrustsNew bool   `json:"trustsNew"`
	TrustsOld bool   `json:"trustsOld"`
	HasKey    bool   `json:"hasKey"`
	UsesNew   bool   `json:"usesNew"`
}

// EncodeRotation returns the value of keyspace's Rotation.
func EncodeRotation(r Rotation) []byte {
	return marshalJSON(rotationJSON{
		PhaseText(r.Phase), r.Started.UTC(), r.Since.UTC(), r.Certificate, r.Hash.String(), r.Turn, r.Given, r.Lost,
	})
}

// DecodeRotation is the inverse of EncodeRotation.
func DecodeRotation(value []byte) (Rotation, error) {
	var m rotationJSON
	err := json.Unmarshal(value, &m)
	hash, ok := parseHash(m.Hash)
	phase := slices.Index(phases, m.Phase)
	if err != nil || !ok || phase < 0 {
		return Rotation{}, fmt.Errorf("the record of the rotation of the CA: %w", ErrCorrupt)
	}
	return Rotation{
		Phase: membership.RotationPhase(phase), Started: m.Started, Since: m.Since, Certificate: m.Certificate, Hash: hash,
		Turn: m.Turn, Given: m.Given, Lost: m.Lost,
	}, nil
}

// EncodeRotationReport returns the value of keyspace's RotationReport.
func EncodeRotationReport(r RotationReport) []byte {
	return marshalJSON(rotationReportJSON{r.CA.String(), r.Key.String(), r.TrustsNew, r.TrustsOld, r.HasKey, r.UsesNew})
}

// DecodeRotationReport is the inverse of EncodeRotationReport. The key names the node.
func DecodeRotationReport(key string, value []byte) (RotationReport, error) {
	var m rotationReportJSON
	err := json.Unmarshal(value, &m)
	ca, ok := parseHash(m.CA)
	own, also := parseHash(m.Key)
	if err != nil || !ok || !also {
		return RotationReport{}, fmt.Errorf("the report %q of a rotation: %w", key, ErrCorrupt)
	}
	return RotationReport{
		Node: protocol.NodeID(key[strings.LastIndex(key, "/")+1:]), CA: ca, Key: own,
		TrustsNew: m.TrustsNew, TrustsOld: m.TrustsOld, HasKey: m.HasKey, UsesNew: m.UsesNew,
	}, nil
}

func parseHash(text string) (pki.Hash, bool) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(pki.Hash{}) {
		return pki.Hash{}, false
	}
	return pki.Hash(raw), true
}

func marshalJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings, times and booleans always marshal
	}
	return text
}
