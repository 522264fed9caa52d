"""Records on disk: run folders, journals and single files. These modules do not depend on the content of the records.

A package that stores records defines its own ``msgspec.Struct`` types and uses

* ``runs.RunFolders`` for runs: a folder for each, with a header file, journals and a lock. It grows entry by entry or
  appears at once; a later command removes the leftovers of an interrupted one;
* ``journal.Journal`` for entries that are added one at a time, each durable before the next;
* ``files.RecordFiles`` for records that are complete when they are written, one file each.
"""
