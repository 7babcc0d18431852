"""Sources of a user's own questions: tables, folders of classes, hub data sets, and other training tools' formats."""
