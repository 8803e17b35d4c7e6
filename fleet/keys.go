// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"strings"
)

// Keys, below the group. docs/fleet.md has the table.
const (
	keyFormat      = "fleet/format"
	keyChanged     = "fleet/changed" // set in each commit that the leader is to see
	keySubmitted   = "fleet/submitted"
	keyExperiments = "fleet/experiments"
	keyPieces      = "fleet/pieces" // apart from experiments, so that these are read without their pieces
	keyReports     = "fleet/reports"
	keyBlobs       = "fleet/blobs"
	keyLogs        = "fleet/logs"
	keyAudit       = "fleet/audit"
	keyDoors       = "fleet/doors"
	keyVitals      = "fleet/vitals"
	keyHealth      = "fleet/health"
	keyLoad        = "fleet/load"
	keyUsers       = "fleet/users"
)

// Base are the directories that the fleet needs, for metastore.Options.
func Base() []string {
	return []string{keySubmitted, keyExperiments, keyPieces, keyReports, keyBlobs, keyLogs, keyAudit,
		keyVitals, keyUsers}
}

func submittedKey(user, hash string) string { return ownKey(keySubmitted, user, hash) }

func specKey(id string) string   { return keyExperiments + "/" + id + "/spec" }
func wishKey(id string) string   { return keyExperiments + "/" + id + "/wish" }
func routeKey(id string) string  { return keyExperiments + "/" + id + "/route" }
func doorKey(door string) string { return keyDoors + "/" + door }
func statusKey(id string) string { return keyExperiments + "/" + id + "/status" }
func piecesKey(id string) string { return keyPieces + "/" + id }

func pieceKey(id string, p PieceID) string { return piecesKey(id) + "/" + p.String() }

func reportKey(member, id string, p PieceID) string {
	return strings.Join([]string{keyReports, member, id, p.String()}, "/")
}

func logKey(id string, a AttemptID) string {
	return strings.Join([]string{keyLogs, id, a.String()}, "/")
}

// blobKey is that of a blob's head, and blobPartKey that of one part, from 0.
func blobKey(sha256 string) string { return keyBlobs + "/" + sha256 }
func blobPartKey(sha256 string, part int) string {
	return fmt.Sprintf("%s/%06d", blobKey(sha256), part)
}

// parseReportKey is reportKey's inverse.
func parseReportKey(key string) (member, id string, p PieceID, err error) {
	parts := strings.Split(strings.TrimPrefix(key, keyReports+"/"), "/")
	if len(parts) != 3 {
		return "", "", p, fmt.Errorf("the key %.80q isn't that of a report", key)
	}
	p, err = ParsePieceID(parts[2])
	return parts[0], parts[1], p, err
}
